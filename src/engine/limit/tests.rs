//! Tests of the written form.
