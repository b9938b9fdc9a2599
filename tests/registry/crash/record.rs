//! The disk operations of a process, in order, as recorded by strace: every call that changes a file or a name, every
//! sync with its result, and every acknowledgement that it printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{child, is_installed, run};

/// One call. Paths are relative to the recorded directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// The file exists from now on; its contents are kept.
    Create(PathBuf),
    /// The file exists and is empty.
    Empty(PathBuf),
    MakeDir(PathBuf),
    Write {
        file: PathBuf,
        at: usize,
        data: Vec<u8>,
    },
    Resize {
        file: PathBuf,
        length: usize,
    },
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    /// A sync of a file or a directory, and whether it succeeded.
    Sync(PathBuf, bool),
    /// The process printed an acknowledgement.
    Acknowledge(String),
}

const TRACED: &str = "trace=openat,creat,write,writev,pwrite64,pwritev,pwritev2,fsync,fdatasync,sync_file_range,\
                      ftruncate,truncate,fallocate,/^rename,/^unlink,/^mkdir,copy_file_range,sendfile,/^link";

/// Runs the test `name` as a child on `dir` under strace, and returns its calls below `dir` and its output.
pub fn record(name: &str, dir: &Path, more: &[&str]) -> (Vec<Call>, String) {
    assert!(is_installed("strace"), "strace is missing: run `cargo xtask setup`");
    let trace = tempfile::NamedTempFile::new().unwrap();
    let arguments = ["strace", "-f", "-y", "-xx", "-s", "4000000", "-e", TRACED, "-o"];
    let mut wrapper: Vec<&str> = arguments.to_vec();
    wrapper.push(trace.path().to_str().unwrap());
    wrapper.extend(more);
    let mut command: Command = child(&wrapper, name, dir);
    command.env("RUST_LOG", "off");
    let printed = run(command);
    let text = std::fs::read_to_string(trace.path()).unwrap();
    assert!(more.is_empty() || text.contains("(INJECTED)"), "strace has injected nothing of {more:?}");
    (read(&text, dir), printed)
}

/// Reads the lines of strace.
fn read(text: &str, dir: &Path) -> Vec<Call> {
    let mut calls = Vec::new();
    // Per thread, the first half of a call that another thread's call interrupted.
    let mut halves: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let whole = if let Some(half) = call.strip_suffix("<unfinished ...>") {
            // Readers may know it from here on. All other calls count when they have returned.
            calls.extend(acknowledged(half));
            halves.insert(thread, half.trim_end().to_owned());
            continue;
        } else if let Some((_, rest)) =
            call.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"))
        {
            let half = halves.remove(thread).expect("strace resumes what it began");
            if acknowledged(&half).is_some() {
                continue;
            }
            half + rest
        } else {
            call.to_owned()
        };
        calls.extend(parse(&whole, dir));
    }
    calls
}

fn acknowledged(call: &str) -> Option<Call> {
    let rest = call.strip_prefix("write(1<")?;
    let text = String::from_utf8_lossy(&quoted(rest.split_once('>')?.1)?).into_owned();
    let text = text.trim().strip_prefix("ack ")?;
    Some(Call::Acknowledge(text.to_owned()))
}

fn parse(call: &str, dir: &Path) -> Option<Call> {
    if let Some(acknowledged) = acknowledged(call) {
        return Some(acknowledged);
    }
    let (name, rest) = call.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ").or_else(|| rest.rsplit_once("= "))?;
    let failed = result.trim_start().starts_with('-');
    let syncs = matches!(name, "fsync" | "fdatasync");
    if failed && !syncs {
        return None;
    }
    let below = |path: PathBuf| path.strip_prefix(dir).map(Path::to_owned).ok();
    let strings: Vec<PathBuf> = arguments.split(", ").filter_map(quoted).map(path).collect();
    let named = |n: usize| strings.get(n).cloned().and_then(below);
    let opened = || {
        let (_, rest) = arguments.split_once('<')?;
        below(path(unhex(rest.split_once('>')?.0)))
    };
    Some(match name {
        "openat" => {
            // The result names the file, however it was opened.
            let (_, rest) = result.split_once('<')?;
            let file = below(path(unhex(rest.split_once('>')?.0)))?;
            match (arguments.contains("O_TRUNC"), arguments.contains("O_CREAT")) {
                (true, _) => Call::Empty(file),
                (false, true) => Call::Create(file),
                (false, false) => return None,
            }
        }
        "mkdir" => Call::MakeDir(named(0)?),
        "mkdirat" => Call::MakeDir(named(0)?),
        "rename" | "renameat" | "renameat2" => Call::Rename(named(0)?, named(1)?),
        "unlink" | "unlinkat" => Call::Remove(named(0)?),
        "fsync" | "fdatasync" => Call::Sync(opened()?, !failed),
        "pwrite64" => {
            let (file, data) = (opened()?, quoted(arguments.split(", ").nth(1)?)?);
            let at = number(arguments.trim_end_matches(')').split(", ").nth(3)?);
            let written = number(result);
            Call::Write { file, at, data: data[..written].to_vec() }
        }
        "write" => {
            // Only files that are written from their start in one call use this: a draft of the note.
            let file = opened()?;
            Call::Write { file, at: 0, data: quoted(arguments.split(", ").nth(1)?)? }
        }
        "ftruncate" => {
            let length = number(arguments.trim_end_matches(')').split(", ").nth(1)?);
            Call::Resize { file: opened()?, length }
        }
        _ => {
            let touches = opened().is_some() || named(0).is_some() || named(1).is_some();
            assert!(!touches, "a call that changes the disk is not understood: {name}");
            return None;
        }
    })
}

/// A number, followed by other output of strace.
fn number(text: &str) -> usize {
    let digits: String = text.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("strace gives no number: {text:?}"))
}

/// The bytes of the first quoted text, which strace writes in hexadecimal.
fn quoted(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once('"')?;
    let (inner, after) = rest.split_once('"')?;
    assert!(!after.starts_with("..."), "strace has cut a text off");
    Some(unhex(inner))
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("strace writes hexadecimal") as u8;
    text.as_bytes().chunks_exact(4).map(|hex| digit(hex[2]) << 4 | digit(hex[3])).collect()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    std::ffi::OsString::from_vec(bytes).into()
}

#[test]
fn what_strace_writes_is_understood() {
    let hex = |text: &str| text.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let (file, dir, out) = (hex("/d/a"), hex("/d"), hex("pipe:[7]"));
    let text = format!(
        "7 openat(AT_FDCWD<{dir}>, \"{file}\", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 5<{file}>\n\
         7 pwrite64(5<{file}>, \"{}\", 4, 4096) = 3\n\
         7 fdatasync(5<{file}> <unfinished ...>\n\
         8 write(1<{out}>, \"{}\", 6) = 6\n\
         7 <... fdatasync resumed>)                = -1 EIO (Input/output error) (INJECTED)\n\
         7 fsync(6<{dir}>)                         = 0\n\
         7 unlink(\"{}\")             = -1 ENOENT (No such file or directory)\n\
         7 ftruncate(5<{file}>, 12) = 0\n",
        hex("abcd"),
        hex("ack 3\n"),
        hex("/d/b"),
    );
    let file = PathBuf::from("a");
    let expected = [
        Call::Create(file.clone()),
        Call::Write { file: file.clone(), at: 4096, data: b"abc".to_vec() },
        Call::Acknowledge("3".into()),
        Call::Sync(file.clone(), false),
        Call::Sync(PathBuf::new(), true),
        Call::Resize { file, length: 12 },
    ];
    assert_eq!(read(&text, Path::new("/d")), expected);
}
