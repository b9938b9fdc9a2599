//! Faults that tests of real processes put into a running one, to see what it makes of them. They exist only with
//! the feature `mutants`, and then only where `ROSTERD_MUTANTS` names a directory: a fault is there while a file of
//! its name is. A normal build reads nothing and has none of it.

/// Panics where it is asked for, once for each time that the file is put there.
#[cfg(feature = "mutants")]
pub fn panic_if_injected(place: &str) {
    if file(place).is_some_and(|path| std::fs::remove_file(path).is_ok()) {
        panic!("injected panic: {place}");
    }
}

/// Whether the fault is there.
#[cfg(feature = "mutants")]
pub fn is_on(name: &str) -> bool {
    file(name).is_some_and(|path| path.exists())
}

/// The number that the fault is given with.
#[cfg(feature = "mutants")]
pub fn number(name: &str) -> Option<i64> {
    text(name)?.parse().ok()
}

/// The text that the fault is given with.
#[cfg(feature = "mutants")]
pub fn text(name: &str) -> Option<String> {
    std::fs::read_to_string(file(name)?).ok().map(|text| text.trim().to_owned())
}

#[cfg(feature = "mutants")]
#[expect(clippy::disallowed_methods, reason = "no field of config: users are not to know of it")]
fn file(name: &str) -> Option<std::path::PathBuf> {
    static DIR: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
    let dir = DIR.get_or_init(|| std::env::var_os("ROSTERD_MUTANTS")).as_ref()?;
    Some(std::path::Path::new(dir).join(name))
}

/// Panics where it is asked for: never.
#[cfg(not(feature = "mutants"))]
pub const fn panic_if_injected(_place: &str) {}

/// Whether the fault is there: never.
#[cfg(not(feature = "mutants"))]
pub const fn is_on(_name: &str) -> bool {
    false
}

/// The number that the fault is given with: none.
#[cfg(not(feature = "mutants"))]
pub const fn number(_name: &str) -> Option<i64> {
    None
}

/// The text that the fault is given with: none.
#[cfg(not(feature = "mutants"))]
pub const fn text(_name: &str) -> Option<String> {
    None
}
