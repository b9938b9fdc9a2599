//! The one binary: coordinator, command line, worker of commands.

/// What the deciding thread allocates for a run, the threads of the store, the history and the streams free. With the
/// system's allocator they wait for each other's locks; see docs/decisions/2026-11-28-the-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    rosterd::cli::main()
}
