//! Refusal of a run that turns out to make no sense once the server's parameters are known.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::Setup;

/// Ends a run as bad usage, instead of with a result. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunRefusal(Rc<RefusalState>);

#[derive(Debug, Default)]
struct RefusalState {
    why: RefCell<Option<String>>,
    refused: Notify,
}

impl Setup {
    /// Ends the run if `why` contains a reason.
    pub(super) fn refuse_if(&self, why: Option<String>) {
        if let Some(why) = why {
            self.refusal.refuse(why);
        }
    }
}

impl RunRefusal {
    pub(super) fn refuse(&self, why: String) {
        self.0.why.borrow_mut().get_or_insert(why);
        self.0.refused.notify_one();
    }

    /// Returns the reason as soon as there is one.
    pub(crate) async fn reason(&self) -> String {
        loop {
            if let Some(why) = self.0.why.take() {
                return why;
            }
            self.0.refused.notified().await;
        }
    }
}
