//! Questions that wait for answers.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::pages::MOST_SERVERS;
use super::wire::Heard;
use crate::channel::Present;
use crate::entropy::Entropy;

/// Questions at a time. Each takes a fifth of a second at most.
const MOST_QUESTIONS: usize = 256;

/// Bytes of answers that wait for others, to all questions. What is more does not count as answered.
const MOST_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct Questions(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    /// By their ids.
    questions: HashMap<u64, Waiting>,
    /// Of what has been said to all of them.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    answers: mpsc::Sender<(String, Present)>,
    bytes: usize,
}

/// One question. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct Pending {
    id: u64,
    answers: mpsc::Receiver<(String, Present)>,
    questions: Questions,
}

impl Questions {
    /// One more, unless there are too many. Nobody can know its id before it is asked.
    pub(super) fn begin(&self, entropy: &Entropy) -> Option<Pending> {
        let mut open = self.0.lock();
        if open.questions.len() >= MOST_QUESTIONS {
            return None;
        }
        let id = u64::from_ne_bytes(entropy.bytes());
        let (sender, answers) = mpsc::channel(MOST_SERVERS);
        open.questions.insert(id, Waiting { answers: sender, bytes: 0 });
        Some(Pending { id, answers, questions: self.clone() })
    }

    /// An answer of so many bytes has come.
    pub(super) fn heard(&self, Heard { id, server, present }: Heard, bytes: usize) {
        let open = &mut *self.0.lock();
        let Some(waiting) = open.questions.get_mut(&id) else { return };
        if open.bytes + bytes <= MOST_ANSWER_BYTES && waiting.answers.try_send((server, present)).is_ok() {
            waiting.bytes += bytes;
            open.bytes += bytes;
        }
    }
}

impl Pending {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// What a server has said. Waits for ever if there is no more.
    pub(super) async fn next(&mut self) -> (String, Present) {
        poll_fn(|task| match self.answers.poll_recv(task) {
            std::task::Poll::Ready(Some(said)) => std::task::Poll::Ready(said),
            // Its sender is there for as long as this is.
            _ => std::task::Poll::Pending,
        })
        .await
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let open = &mut *self.questions.0.lock();
        if let Some(waiting) = open.questions.remove(&self.id) {
            open.bytes -= waiting.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn said(id: u64, server: &str) -> Heard {
        Heard { id, server: server.to_owned(), present: Present::default() }
    }

    #[test]
    fn an_answer_finds_its_question() {
        let (questions, entropy) = (Questions::default(), Entropy::system());
        let mut one = questions.begin(&entropy).expect("room");
        let mut other = questions.begin(&entropy).expect("room");
        questions.heard(said(other.id(), "a"), 10);
        questions.heard(said(other.id().wrapping_add(1), "b"), 10);
        assert_eq!(other.next().now_or_never(), Some(("a".to_owned(), Present::default())));
        assert_eq!((one.next().now_or_never(), other.next().now_or_never()), (None, None));
        let id = one.id();
        drop(one);
        questions.heard(said(id, "a"), 10);
        assert_eq!(questions.0.lock().bytes, 10);
        drop(other);
        assert_eq!(questions.0.lock().bytes, 0);
    }

    #[test]
    fn there_are_so_many_at_a_time() {
        let (questions, entropy) = (Questions::default(), Entropy::system());
        let mut all: Vec<_> = std::iter::from_fn(|| questions.begin(&entropy)).collect();
        assert_eq!(all.len(), MOST_QUESTIONS);
        // And so many bytes, and answers to one.
        questions.heard(said(all[0].id(), "a"), MOST_ANSWER_BYTES);
        questions.heard(said(all[1].id(), "a"), 1);
        assert_eq!(all[1].next().now_or_never(), None);
        drop(all.remove(0));
        for _ in 0..=MOST_SERVERS {
            questions.heard(said(all[0].id(), "a"), 1);
        }
        assert_eq!(questions.0.lock().bytes, MOST_SERVERS);
        assert!(questions.begin(&entropy).is_some());
    }
}
