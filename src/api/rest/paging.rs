//! Lists in pages: sorted by a field, with a cursor that names the last row. Pure; called by the handlers of lists.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;

/// The default number of rows of a page.
const USUAL: usize = 1000;
/// The maximum.
const MOST: usize = 10_000;

/// Options of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listing {
    /// The field to sort by; with a leading `-` in descending order.
    pub(crate) sort: Option<String>,
    /// Rows of a page: 1 to 10000; default: 1000.
    pub(crate) limit: Option<usize>,
    /// From the `Link` header of the previous answer (`rel="next"`).
    pub(crate) cursor: Option<String>,
    /// Only rows whose name contains this text, ignoring case.
    pub(crate) contains: Option<String>,
    /// Only jobs with this status.
    pub(crate) status: Option<String>,
}

/// A page, and the cursor of the next one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Paged<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<String>,
}

/// A row's position: the value that it is sorted by, then its name, which is unique.
pub(crate) type PagePosition = (String, String);

impl Listing {
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        match self.limit.unwrap_or(USUAL) {
            limit @ 1..=MOST => Ok(limit),
            limit => Err(Problem::invalid("limit", format!("{limit} is not from 1 to {MOST}"))),
        }
    }

    /// The field to sort by, and whether in descending order.
    pub(crate) fn order<'a>(&'a self, fields: &[&'a str]) -> Result<(&'a str, bool), Problem> {
        let sort = self.sort.as_deref().unwrap_or(fields[0]);
        let (field, descending) = match sort.strip_prefix('-') {
            Some(field) => (field, true),
            None => (sort, false),
        };
        if !fields.contains(&field) {
            let what = format!("{field:?} is not a field to sort by: use one of {}", fields.join(", "));
            return Err(Problem::invalid("sort", what));
        }
        Ok((field, descending))
    }

    /// Sorts rows by position and returns the page.
    pub(crate) fn page<T>(
        &self,
        mut rows: Vec<(PagePosition, T)>,
        descending: bool,
    ) -> Result<Paged<T>, Problem> {
        let order = |a: &PagePosition, b: &PagePosition| if descending { b.cmp(a) } else { a.cmp(b) };
        rows.sort_by(|(a, _), (b, _)| order(a, b));
        if let Some(cursor) = &self.cursor {
            let last = place(cursor)?;
            rows.retain(|(place, _)| order(place, &last) == Ordering::Greater);
        }
        let limit = self.limit()?;
        let next = (rows.len() > limit).then(|| cursor(&rows[limit - 1].0));
        rows.truncate(limit);
        Ok(Paged { rows: rows.into_iter().map(|(_, row)| row).collect(), next })
    }
}

fn cursor(place: &PagePosition) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(place).unwrap_or_default())
}

fn place(cursor: &str) -> Result<PagePosition, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
        Problem::invalid(
            "cursor",
            "it is not a cursor of this API: use the one of the Link header, or leave it out",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(descending: bool, limit: usize) -> Vec<u32> {
        let rows = || (0..23_u32).map(|n| ((format!("{}", n % 3), format!("{n:02}")), n)).collect::<Vec<_>>();
        let mut seen = Vec::new();
        let mut asked = Listing { limit: Some(limit), ..Listing::default() };
        loop {
            let page = asked.page(rows(), descending).unwrap();
            assert!(page.rows.len() <= limit);
            seen.extend(page.rows);
            let Some(next) = page.next else { return seen };
            asked.cursor = Some(next);
        }
    }

    #[test]
    fn pages_show_every_row_once_and_in_order() {
        let mut wanted: Vec<u32> = (0..23).collect();
        wanted.sort_by_key(|n| (n % 3, *n));
        for limit in [1, 5, 22, 23, 100] {
            assert_eq!(all(false, limit), wanted);
        }
        wanted.reverse();
        assert_eq!(all(true, 4), wanted);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let listing =
            |cursor: &str, limit| Listing { cursor: Some(cursor.into()), limit, ..Listing::default() };
        assert!(listing("x", None).page(vec![((String::new(), String::new()), 1)], false).is_err());
        assert!(listing("", Some(0)).limit().is_err());
        let sorted = Listing { sort: Some("-colour".into()), ..Listing::default() };
        assert!(sorted.order(&["jobName"]).is_err());
    }
}
