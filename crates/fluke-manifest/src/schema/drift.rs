//! `drift { … }`

use fluke_model::policy::Policy;

use crate::hcl::decode::{Field, Fields, Reported};

const POLICIES: &[(&str, Policy)] = &[
    ("remediate", Policy::Remediate),
    ("remediate_and_alert", Policy::RemediateAndAlert),
    ("alert_only", Policy::AlertOnly),
];

pub(super) fn read(mut fields: Fields<'_, '_>) -> Result<Policy, Reported> {
    let policy = fields.required(Field::word("policy", POLICIES));
    fields.finish();
    policy
}
