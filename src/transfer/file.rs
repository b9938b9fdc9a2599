//! What a store holds as a file, and back.

use super::{Export, form, read};

impl Export {
    /// The file.
    pub fn to_json(&self) -> String {
        form::write(self)
    }

    /// Reads a file; either all of it is right, or it returns every defect, with its place.
    pub fn from_json(text: &[u8]) -> Result<Self, Vec<String>> {
        read::read(text)
    }
}
