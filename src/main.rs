//! The one binary: coordinator, command line, worker of commands.

fn main() -> std::process::ExitCode {
    rosterd::cli::main()
}
