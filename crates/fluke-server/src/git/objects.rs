//! Objects of the mirror, through two `git cat-file` that stay up: one for sizes, one for content.
//!
//! Blocking: for use on threads that may block.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use super::command::Program;

/// Requests are written in portions that fit the smallest pipe there is, so that neither side
/// ever waits for the other to read.
const PORTION: usize = 4096;

/// What an object is, before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) size: u64,
}

/// Reads objects by name.
#[derive(Default)]
pub(super) struct Objects {
    sizes: Option<Pipe>,
    contents: Option<Pipe>,
}

impl Objects {
    /// Forgets the running processes; new ones start with the next request.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Kind and size of each of `names`; none for what does not exist.
    pub(super) fn headers(
        &mut self,
        program: &Program,
        names: &[&str],
    ) -> io::Result<Vec<Option<Header>>> {
        self.twice(|objects| {
            let mut headers = Vec::with_capacity(names.len());
            open(&mut objects.sizes, program, "--batch-check")?.ask(names, |pipe| {
                headers.push(pipe.header()?);
                Ok(())
            })?;
            Ok(headers)
        })
    }

    /// The content of each of `names`; their sizes are the caller's to check before.
    pub(super) fn contents(
        &mut self,
        program: &Program,
        names: &[&str],
    ) -> io::Result<Vec<Arc<[u8]>>> {
        self.twice(|objects| {
            let mut contents = Vec::with_capacity(names.len());
            open(&mut objects.contents, program, "--batch")?.ask(names, |pipe| {
                contents.push(pipe.content()?);
                Ok(())
            })?;
            Ok(contents)
        })
    }

    /// After a failure the pipes may be anywhere: new ones get a second chance, as somebody may
    /// have killed the old ones.
    fn twice<T>(&mut self, mut ask: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        ask(self).or_else(|_| {
            self.restart();
            ask(self).inspect_err(|_| self.restart())
        })
    }
}

fn open<'a>(
    slot: &'a mut Option<Pipe>,
    program: &Program,
    mode: &'static str,
) -> io::Result<&'a mut Pipe> {
    match slot {
        Some(pipe) => Ok(pipe),
        None => Ok(slot.insert(Pipe::start(program, mode)?)),
    }
}

struct Pipe {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pipe {
    fn start(program: &Program, mode: &str) -> io::Result<Self> {
        let mut child = program
            .command()
            .args(["--git-dir", super::MIRROR, "cat-file", mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        match (requests, answers) {
            (Some(requests), Some(answers)) => {
                Ok(Self { child, requests, answers: BufReader::with_capacity(64 * 1024, answers) })
            }
            _ => Err(io::Error::other("git cat-file has no pipes")),
        }
    }

    /// Asks for all of `names`, portion by portion, and has `answer` read one answer for each.
    fn ask(
        &mut self,
        names: &[&str],
        mut answer: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut names = names.iter().peekable();
        while names.peek().is_some() {
            let mut portion = String::with_capacity(PORTION);
            let mut asked = 0;
            while let Some(name) =
                names.next_if(|name| asked == 0 || portion.len() + name.len() < PORTION)
            {
                portion.push_str(name);
                portion.push('\n');
                asked += 1;
            }
            self.requests.write_all(portion.as_bytes())?;
            (0..asked).try_for_each(|_| answer(self))?;
        }
        Ok(())
    }

    /// `<id> <kind> <size>`, or `<name> missing`.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut line = Vec::new();
        (&mut self.answers).take(PORTION as u64).read_until(b'\n', &mut line)?;
        let line = String::from_utf8_lossy(&line);
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [id, kind, size] => {
                let size = size.parse().map_err(|_| unexpected(&line))?;
                Ok(Some(Header { id: id.to_string(), kind: kind.to_string(), size }))
            }
            [_, "missing" | "ambiguous"] => Ok(None),
            [] => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "git cat-file ended")),
            _ => Err(unexpected(&line)),
        }
    }

    fn content(&mut self) -> io::Result<Arc<[u8]>> {
        let header = self.header()?.ok_or_else(|| io::Error::other("an object is missing"))?;
        let size = usize::try_from(header.size).map_err(io::Error::other)?;
        let mut content = vec![0; size];
        self.answers.read_exact(&mut content)?;
        self.answers.read_exact(&mut [0])?;
        Ok(content.into())
    }
}

fn unexpected(line: &str) -> io::Error {
    io::Error::other(format!("git cat-file answered {:?}", line.trim_end()))
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Nothing is lost with it; waiting keeps no zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Mirror;
    use crate::git::fixture::Repository;

    #[tokio::test]
    async fn a_reader_that_was_killed_is_replaced() {
        let repository = Repository::with("a.fluke.hcl", "one");
        let mut mirror = Mirror::new(repository.config());
        mirror.checkout(None).await.expect("a checkout");
        let mut objects = Objects::default();
        let read = |objects: &mut Objects| {
            let names = ["refs/fluke/tip:a.fluke.hcl"; 300];
            let headers = objects.headers(&mirror.program, &names).expect("headers");
            assert!(headers.iter().flatten().all(|header| header.size == 3));
            let contents = objects.contents(&mirror.program, &names).expect("contents");
            assert!(contents.len() == 300 && contents.iter().all(|content| **content == *b"one"));
        };
        read(&mut objects);
        for pipe in [&mut objects.sizes, &mut objects.contents].into_iter().flatten() {
            pipe.child.kill().expect("killed");
        }
        read(&mut objects);
    }
}
