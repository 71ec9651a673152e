//! A folder of the demo's own for its outbox, gone when the demo has ended.
//!
//! Killed outright, the demo leaves it behind: the line that named it says where.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Folders that earlier demos with our process id left behind, at most: a container gives the same id every time.
const LEFT_BEHIND_MAX: u32 = 1_000;

/// The folder.
#[derive(Debug)]
pub(crate) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// A new folder among the system's temporary ones, for nobody else's eyes.
    pub(crate) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let name = |number| format!("mailweir-demo-{}-{number}", std::process::id());
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let mut number = 0;
        loop {
            let folder = parent.join(name(number));
            match builder.create(&folder) {
                Ok(()) => return Ok(Self { folder }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < LEFT_BEHIND_MAX => number += 1,
                Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display()))),
            }
        }
    }

    /// The outbox in it.
    pub(crate) fn outbox(&self) -> PathBuf {
        self.folder.join("outbox.db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            let _ = writeln!(io::stderr(), "{} could not be removed: {error}", self.folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_and_is_gone_with_what_it_held() {
        let parent = tempfile::tempdir().expect("a scratch folder");
        let (one, other) =
            (Scratch::within(parent.path()).expect("room"), Scratch::within(parent.path()).expect("room"));
        assert_ne!(one.outbox(), other.outbox());
        std::fs::write(one.outbox(), "x").expect("it is ours");
        drop((one, other));
        assert_eq!(std::fs::read_dir(parent.path()).expect("it stays").count(), 0);
    }

    #[test]
    fn a_place_that_cannot_hold_it_is_named() {
        let parent = tempfile::tempdir().expect("a scratch folder");
        let error = Scratch::within(&parent.path().join("missing")).expect_err("there is no such folder");
        assert!(error.to_string().contains("missing"), "{error}");
    }
}
