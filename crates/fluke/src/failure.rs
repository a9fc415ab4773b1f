//! How a command fails: what failed, why, and what to do about it.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use crate::sanitise;

/// The end of a command that did not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// To be told on stderr; exit code 1, or 2 for wrong usage.
    Told(Box<Story>),
    /// Everything there is to say has been printed; exit code 1.
    Shown,
    /// Whoever read our output has gone away, which is no failure of ours.
    ReaderGone,
}

/// What is told of a failure.
#[derive(Debug)]
pub struct Story {
    what: String,
    causes: Vec<String>,
    help: Option<String>,
    is_usage: bool,
}

impl Failure {
    /// A failure without a cause.
    pub fn new(what: impl Into<String>) -> Self {
        let (causes, help, is_usage) = (Vec::new(), None, false);
        Self::Told(Box::new(Story { what: what.into(), causes, help, is_usage }))
    }

    /// A failure told by an error and the errors beneath it.
    pub fn from_error(error: &dyn Error) -> Self {
        Self::new(error.to_string()).because_all(error.source())
    }

    /// Adds the error that led to it, and the errors beneath that.
    pub fn because(self, cause: &dyn Error) -> Self {
        self.because_all(Some(cause))
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        if let Self::Told(story) = &mut self {
            story.help = Some(help.into());
        }
        self
    }

    /// The command was not called as it should be, if `is_usage`.
    pub fn usage(mut self, is_usage: bool) -> Self {
        if let Self::Told(story) = &mut self {
            story.is_usage = is_usage;
        }
        self
    }

    fn because_all(mut self, mut cause: Option<&dyn Error>) -> Self {
        let Self::Told(story) = &mut self else { return self };
        while let Some(error) = cause {
            let text = error.to_string();
            // Wrappers like to repeat the text of what they wrap.
            if !story.causes.last().unwrap_or(&story.what).contains(&text) {
                story.causes.push(text);
            }
            cause = error.source();
        }
        self
    }

    /// The code for the shell.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Told(story) if story.is_usage => ExitCode::from(2),
            Self::Told(_) | Self::Shown => ExitCode::FAILURE,
            Self::ReaderGone => ExitCode::SUCCESS,
        }
    }

    /// The text for stderr; empty where there is nothing left to say.
    pub fn text(&self) -> String {
        let Self::Told(story) = self else { return String::new() };
        let mut text = format!("error: {}\n", sanitise::block(&story.what));
        for cause in &story.causes {
            text.push_str(&format!(
                "  because: {}\n",
                sanitise::block(cause).replace('\n', "\n    ")
            ));
        }
        if let Some(help) = &story.help {
            text.push_str(&format!("help: {}\n", sanitise::block(help)));
        }
        text
    }
}

/// A failure to write to stdout.
pub fn writing(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::new("could not write to standard output").because(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not do it")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is \u{1b}[31mfull")]
    struct Inner;

    #[test]
    fn a_failure_tells_what_why_and_what_to_do() {
        let failure = Failure::from_error(&Outer(Inner)).help("make room");
        assert_eq!(
            failure.text(),
            "error: could not do it\n  because: the disk is full\nhelp: make room\n"
        );
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let failure = writing(io::ErrorKind::BrokenPipe.into());
        assert_eq!(failure.text(), "");
        assert_eq!(failure.exit_code(), ExitCode::SUCCESS);
    }
}
