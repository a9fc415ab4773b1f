//! `--watch`: on a terminal the page is drawn over itself, in a pipe what is new is appended.
//!
//! Nothing is polled: the server's stream says when to look again.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Printing;
use super::show::{Page, render, warn};
use crate::cli::Format;
use crate::client::Client;
use crate::client::changes::{Change, Changes};
use crate::client::error::ClientError;
use crate::colour::Paint;
use crate::failure::{Failure, writing};
use crate::fit;
use crate::screen::{self, Style};
use crate::terminal::inputs::{Input, Inputs};
use crate::terminal::keys::Key;
use crate::terminal::{Size, Terminal};
use crate::when;

/// How often "3s ago" is told anew while nothing changes.
const TICK: Duration = Duration::from_secs(5);
/// Before the server is asked again after it did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Shows `page` until somebody ends it.
pub async fn watch<P: Page>(client: &Client, page: &P, printing: Printing) -> Result<(), Failure> {
    // Listening starts before asking, so that nothing falls in between.
    let changes = Changes::follow(client.clone(), page.concerns());
    let fetched = match page.fetch(client).await {
        Ok(fetched) => fetched,
        Err(error) => return Err(page.explain(error, client).await),
    };
    match printing.style().can_move() {
        true => Watch { client, page, printing, fetched, trouble: None }.draw(changes).await,
        false => append(client, page, printing, changes, fetched).await,
    }
}

/// What came of looking again.
enum News<F> {
    Fetched(F),
    Trouble(ClientError),
}

/// Looks again whenever there is a reason to, and tells; returns only what cannot get better.
async fn look<P: Page>(
    client: &Client,
    page: &P,
    mut changes: Changes,
    tell: mpsc::Sender<News<P::Fetched>>,
) -> Failure {
    let mut failed = false;
    loop {
        if std::mem::take(&mut failed) {
            // It may be long before anything else changes.
            sleep(PAUSE).await;
        } else if let Change::Lost(error) = changes.next().await {
            let _ = tell.send(News::Trouble(error)).await;
            continue;
        }
        let began = Instant::now();
        let news = match page.fetch(client).await {
            Ok(fetched) => News::Fetched(fetched),
            Err(error) if error.is_transient() => News::Trouble(error),
            Err(error) => return page.explain(error, client).await,
        };
        changes.looked(began.elapsed());
        failed = matches!(news, News::Trouble(_));
        // Whoever stopped to listen stops this too.
        let _ = tell.send(news).await;
    }
}

/// A page on a terminal.
struct Watch<'a, P: Page> {
    client: &'a Client,
    page: &'a P,
    printing: Printing,
    fetched: P::Fetched,
    /// Why what is shown may be out of date.
    trouble: Option<ClientError>,
}

impl<P: Page> Watch<'_, P> {
    async fn draw(mut self, changes: Changes) -> Result<(), Failure> {
        let (tell, mut told) = mpsc::channel(1);
        let looking = look(self.client, self.page, changes, tell);
        tokio::pin!(looking);
        let (stdout, stdin) = (io::stdout(), io::stdin());
        let mut terminal = Terminal::take(stdout.as_fd(), stdin.as_fd()).map_err(writing)?;
        let mut inputs = Inputs::listen(&terminal).map_err(writing)?;
        loop {
            let (lines, size) = self.frame()?;
            terminal.draw(&lines, size).map_err(writing)?;
            // All are safe to cancel, or not cancelled.
            tokio::select! {
                input = inputs.next() => match input {
                    Input::Stop | Input::Key(Key::Char('q')) => break,
                    Input::Suspend => terminal.suspend().map_err(writing)?,
                    Input::Resized | Input::Key(_) => {}
                },
                Some(news) = told.recv() => match news {
                    News::Fetched(fetched) => (self.fetched, self.trouble) = (fetched, None),
                    News::Trouble(error) => self.trouble = Some(error),
                },
                failure = &mut looking => return Err(failure),
                // Nothing new; but the times that are shown have moved on.
                () = sleep(TICK) => {}
            }
        }
        // What was seen last stays to be read.
        drop(terminal);
        let (lines, _) = self.frame()?;
        let last = lines.iter().take(lines.len() - 1).rposition(|line| !line.is_empty());
        screen::print(&(lines[..last.map_or(0, |last| last + 1)].join("\n") + "\n"))
    }

    /// The lines for the whole screen; the last one says how to leave.
    fn frame(&self) -> Result<(Vec<String>, Size), Failure> {
        let style = self.printing.style();
        let size = style.size();
        let text = render(self.client, self.page, &self.fetched, self.printing, style)?;
        let above = self.headline(style);
        let all = above.lines().chain(text.lines());
        let mut lines: Vec<String> = all.flat_map(|line| fit::fold(line, size.width)).collect();
        let room = size.height.saturating_sub(1);
        let hidden = lines.len().saturating_sub(room);
        lines.resize(room, String::new());
        let more = if hidden > 0 { format!("{hidden} more lines · ") } else { String::new() };
        lines.push(Paint::Dim.on(&format!("{more}q ends it"), style.colours));
        Ok((lines, size))
    }

    fn headline(&self, style: Style) -> String {
        let line = |word: &str, paint: Paint, text: &str| {
            format!("{} {text}\n", paint.on(word, style.colours))
        };
        let mut text = String::new();
        if let Some(trouble) = &self.trouble {
            let told = format!("{trouble}; trying again");
            text.push_str(&line("out of date:", Paint::Red, &told));
        }
        if let Some(warning) = self.page.warning(&self.fetched) {
            text.push_str(&line("warning:", Paint::Yellow, &warning));
        }
        text
    }
}

/// Everything once, then what is new.
async fn append<P: Page>(
    client: &Client,
    page: &P,
    printing: Printing,
    changes: Changes,
    mut fetched: P::Fetched,
) -> Result<(), Failure> {
    warn(page.warning(&fetched), printing);
    screen::print(&render(client, page, &fetched, printing, printing.style())?)?;
    let (tell, mut told) = mpsc::channel(1);
    let looking = look(client, page, changes, tell);
    tokio::pin!(looking);
    let mut is_lost = false;
    loop {
        let news = tokio::select! {
            Some(news) = told.recv() => news,
            failure = &mut looking => return Err(failure),
        };
        let newer = match news {
            News::Fetched(newer) => newer,
            News::Trouble(error) => {
                if !std::mem::replace(&mut is_lost, true) {
                    warn(Some(format!("{error}; trying again")), printing);
                }
                continue;
            }
        };
        if std::mem::take(&mut is_lost) {
            warn(Some("connected again".into()), printing);
        }
        if page.json(&newer) != page.json(&fetched) {
            let news = match printing.format {
                Format::Table => page.news(&fetched, &newer, client, when::now())?,
                Format::Json | Format::Yaml => None,
            };
            let whole = || render(client, page, &newer, printing, printing.style());
            screen::print(&news.map_or_else(whole, Ok)?)?;
        }
        fetched = newer;
    }
}
