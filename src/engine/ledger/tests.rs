//! Unit tests of the ledger. The property tests against providers' algorithms are in `tests/ledger.rs`.
