//! O1 to O11: what always holds for operations and their attempts.
