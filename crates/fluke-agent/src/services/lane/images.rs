//! Images that were fetched here go again, once nobody has used them for long.

use std::collections::BTreeSet;

use super::Lane;
use super::desired::Desired;

impl Lane {
    /// Lets go of the image that nobody has used for longest, if it is time. `used` are the ids of
    /// those that containers are made of.
    pub(super) fn let_images_go(&mut self, desired: &Desired, used: &BTreeSet<String>) {
        let now = (self.clock)();
        let is_wanted = |name: &str| desired.wanted.iter().any(|it| it.spec.image == name);
        let is_used = |name: &str, id: &str| used.contains(id) || is_wanted(name);
        self.unkept.fetched |= self.fetched.see(is_used, now);
        let unused = self.fetched.unused_for(self.config.keep_images, now);
        if let Some((name, id)) = unused.filter(|_| self.refusal().is_none()) {
            self.jobs.let_go(name, id);
        }
    }

    pub(super) fn was_let_go(&mut self, image: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                tracing::info!(image, "an image that nobody used any more is not kept");
                self.fetched.forget(image);
            }
            Err(why) => {
                tracing::warn!(image, why, "an image that nobody uses stays for now");
                self.fetched.postpone(image, (self.clock)());
            }
        }
        self.unkept.fetched = true;
    }
}
