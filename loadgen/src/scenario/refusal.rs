//! What turns out to make no sense once the server has said what it promises.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::Setup;

/// Ends a run as bad usage, in place of a result. A clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    why: RefCell<Option<String>>,
    refused: Notify,
}

impl Setup {
    /// Ends the run if there is a reason.
    pub(super) fn refuse_if(&self, why: Option<String>) {
        if let Some(why) = why {
            self.refusal.refuse(why);
        }
    }
}

impl Refusal {
    pub(super) fn refuse(&self, why: String) {
        self.0.why.borrow_mut().get_or_insert(why);
        self.0.refused.notify_one();
    }

    /// Returns why, when there is a reason.
    pub(crate) async fn reason(&self) -> String {
        loop {
            if let Some(why) = self.0.why.take() {
                return why;
            }
            self.0.refused.notified().await;
        }
    }
}
