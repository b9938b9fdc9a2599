//! Item parameters: `0=Beijing,1=Shanghai`, by Elastic-Job's own rules.
//!
//! Keeps the text as it was written, since the node is compared and shown as text. Does not know how many items the job
//! has: parameters of items beyond the count are kept and not used.

use std::collections::BTreeMap;

use crate::id::Item;

/// One parameter per item.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ItemParameters {
    text: String,
    map: BTreeMap<Item, String>,
}

/// Why a text is not a list of item parameters. Names the position and never the parameter, which may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemParametersError {
    /// Elastic-Job's own rule: an entry has exactly one `=`, and text on both sides.
    #[error("entry {0} is not of the form item=parameter (a parameter holds no comma and no equals sign)")]
    Form(usize),
    /// The part before `=` is not an item number.
    #[error("entry {0} does not begin with an item's number, 0 or more")]
    Item(usize),
    /// An item has two parameters.
    #[error("item {0} has two parameters")]
    Twice(Item),
}

impl ItemParameters {
    /// Parses the text; if an item has two parameters the later one counts, as in Elastic-Job.
    pub fn parse(text: &str) -> Result<Self, ItemParametersError> {
        let mut map = BTreeMap::new();
        for (item, parameter) in entries(text)? {
            map.insert(item, parameter.to_owned());
        }
        Ok(Self { text: text.to_owned(), map })
    }

    /// Parses the text; two parameters for one item are refused.
    pub fn parse_strict(text: &str) -> Result<Self, ItemParametersError> {
        let mut map = BTreeMap::new();
        for (item, parameter) in entries(text)? {
            if map.insert(item, parameter.to_owned()).is_some() {
                return Err(ItemParametersError::Twice(item));
            }
        }
        Ok(Self { text: text.to_owned(), map })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parameter of one item.
    pub fn get(&self, item: Item) -> Option<&str> {
        self.map.get(&item).map(String::as_str)
    }

    /// All of them by item.
    pub fn map(&self) -> &BTreeMap<Item, String> {
        &self.map
    }
}

/// Omits the parameters: they may be secrets.
impl std::fmt::Debug for ItemParameters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ItemParameters({} items)", self.map.len())
    }
}

/// Like Java's `split(",")`, which drops trailing empty entries only; an empty text has no entries.
fn entries(text: &str) -> Result<Vec<(Item, &str)>, ItemParametersError> {
    let kept = text.trim_end_matches(',');
    if text.trim().is_empty() || kept.is_empty() {
        return Ok(Vec::new());
    }
    kept.split(',').enumerate().map(|(i, pair)| entry(i + 1, pair)).collect()
}

fn entry(number: usize, pair: &str) -> Result<(Item, &str), ItemParametersError> {
    let (item, parameter) = pair.split_once('=').ok_or(ItemParametersError::Form(number))?;
    let parameter = parameter.trim();
    if parameter.is_empty() || parameter.contains('=') {
        return Err(ItemParametersError::Form(number));
    }
    let item = item.trim().parse().map_err(|_| ItemParametersError::Item(number))?;
    Ok((Item(item), parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_elastic_job_reads_them() {
        let read = ItemParameters::parse(" 0 = Beijing ,1=Shanghai,").unwrap();
        assert_eq!(read.as_str(), " 0 = Beijing ,1=Shanghai,");
        assert_eq!((read.get(Item(0)), read.get(Item(1))), (Some("Beijing"), Some("Shanghai")));
        for none in ["", " ", ",,"] {
            assert_eq!(ItemParameters::parse(none).unwrap().map().len(), 0);
        }
        assert_eq!(ItemParameters::parse("0=a,0=b").unwrap().get(Item(0)), Some("b"));
        assert_eq!(ItemParameters::parse_strict("0=a,0=b"), Err(ItemParametersError::Twice(Item(0))));
    }

    #[test]
    fn what_elastic_job_refuses_is_refused() {
        for text in ["0", "0=", "=a", "0=a=b", "a=b", "-1=a", "0=a,,1=b", "0=a;1=b", "4294967296=a"] {
            assert!(ItemParameters::parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
