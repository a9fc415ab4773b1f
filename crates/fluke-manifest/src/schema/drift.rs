//! `drift { … }`

use fluke_model::policy::Policy;

use crate::hcl::decode::{Field, Fields};

const POLICIES: &[(&str, Policy)] = &[
    ("remediate", Policy::Remediate),
    ("remediate_and_alert", Policy::RemediateAndAlert),
    ("alert_only", Policy::AlertOnly),
];

pub(super) fn read(mut fields: Fields<'_, '_>) -> Option<Policy> {
    let policy = fields.required(Field::word("policy", POLICIES));
    fields.finish();
    policy
}
