//! The one binary: coordinator, command line, worker of commands.

/// Gives memory back that a burst needed once, which the C library's does not, and is faster.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    rosterd::cli::main()
}
