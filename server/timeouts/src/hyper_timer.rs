use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sleep::Sleep;
use crate::timeouts::Timeouts;

/// Implements hyper's timeouts on the wheel. The `Instant`s refer to the server's clock.
#[derive(Clone, Debug)]
pub struct WheelTimer(pub Arc<Timeouts>);

impl hyper::rt::Timer for WheelTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.0.sleep(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.0.sleep_until(self.0.clock().timestamp_of(deadline)))
    }

    fn now(&self) -> Instant {
        self.0.clock().to_instant(self.0.clock().now())
    }
}

impl hyper::rt::Sleep for Sleep {}
