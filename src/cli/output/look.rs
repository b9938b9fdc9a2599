//! What the output goes to: a person's terminal, with its width and colors, or a file or program.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::{Args, ColorChoice};
use jiff::tz::TimeZone;
use rosterd_domain::time::Time;

/// Narrower terminals are taken for this wide: nothing is readable there.
const NARROWEST: usize = 40;

/// What every command takes.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Choices {
    /// Colors, also of log lines; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(help_heading = "Output", display_order = 910)]
    color: ColorChoice,
    /// Times as dates in UTC, where a terminal shows "12s ago" or local time
    #[arg(long, global = true, help_heading = "Output", display_order = 911)]
    utc: bool,
}

/// How texts for stdout are written.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Columns of the terminal; none: a file or a program reads it.
    pub(crate) width: Option<usize>,
    pub(crate) color: bool,
    /// Times are shown as "12s ago", and dates in this zone.
    pub(crate) zone: Option<TimeZone>,
    pub(crate) now: Time,
}

/// Chosen once, by what was typed.
static LOOK: OnceLock<Look> = OnceLock::new();
static LOG: OnceLock<bool> = OnceLock::new();

impl Choices {
    /// Holds for this process from now on.
    #[allow(clippy::disallowed_methods, reason = "`ago` counts from now")]
    pub(crate) fn hold(self) {
        let stdout = std::io::stdout();
        let width = width();
        let look = Look {
            width,
            color: self.colors(&stdout),
            zone: (width.is_some() && !self.utc).then(TimeZone::system),
            now: jiff::Timestamp::now().into(),
        };
        // Only tests in one process come here twice.
        let _twice = LOOK.set(look);
        let _twice = LOG.set(self.colors(&std::io::stderr()));
    }

    #[allow(clippy::disallowed_methods, reason = "NO_COLOR and TERM are the user's")]
    fn colors(self, out: &impl IsTerminal) -> bool {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                out.is_terminal()
                    && !set("NO_COLOR")
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// How stdout is written to.
pub(crate) fn look() -> &'static Look {
    static PLAIN: Look = Look { width: None, color: false, zone: None, now: Time(0) };
    LOOK.get().unwrap_or(&PLAIN)
}

/// Whether log lines on stderr are colored.
pub(crate) fn log_in_color() -> bool {
    LOG.get().copied().unwrap_or_default()
}

/// Whether a person reads stdout.
pub(crate) fn is_terminal() -> bool {
    look().width.is_some()
}

/// The columns of the terminal that shows the output; none when a file or a program takes it.
pub(crate) fn width() -> Option<usize> {
    let out = std::io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    // A terminal that does not say is taken for an ordinary one.
    let columns = if size.ws_col == 0 { 80 } else { usize::from(size.ws_col) };
    Some(columns.max(NARROWEST))
}
