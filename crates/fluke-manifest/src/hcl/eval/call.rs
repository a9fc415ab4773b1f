//! Function calls.

use super::super::ast::{Expr, Ident, Span};
use super::super::budget::{Exceeded, MAX_VALUE};
use super::super::convert::convert;
use super::super::functions::{self, Failure, Function};
use super::super::problem::Problem;
use super::super::scope::Scope;
use super::super::suggest::did_you_mean;
use super::super::value::Value;
use super::{Outcome, add_new, exceeded, fail};

/// An argument and where it came from.
type Argument = (Value, Span);

impl Scope<'_> {
    pub(super) fn call(
        &self,
        name: &Ident,
        args: &[Expr],
        expand_last: bool,
        span: Span,
    ) -> Outcome {
        let plain = name.text.strip_prefix("core::").unwrap_or(&name.text);
        match plain {
            "try" => return self.call_try(args, span),
            "can" => return self.call_can(args, span),
            _ => {}
        }
        let Some(function) = functions::find(plain) else {
            return Err(vec![unknown_function(name)]);
        };
        let arguments = self.arguments(args, expand_last)?;
        check_count(function, &arguments, span)?;
        let spans: Vec<Span> = arguments.iter().map(|(_, span)| *span).collect();
        let values = convert_arguments(function, arguments)?;
        let size: u64 = values.iter().map(|value| value.extent().size).sum();
        if size > 2 * MAX_VALUE {
            return Err(exceeded(Exceeded::Value, span));
        }
        // Functions take time by the size of what they are given.
        self.budget.work(1 + size / 64).map_err(|limit| exceeded(limit, span))?;
        let result = (function.body)(&values, self);
        let value = result.map_err(|failure| report(function, failure, &spans, span))?;
        self.admit(value, span)
    }

    fn arguments(&self, args: &[Expr], expand_last: bool) -> Outcome<Vec<Argument>> {
        let mut arguments = Vec::with_capacity(args.len());
        let mut problems = None;
        for (index, arg) in args.iter().enumerate() {
            let expand = expand_last && index + 1 == args.len();
            match self.eval(arg) {
                Ok(value) if expand => match expand_argument(&value, arg.span) {
                    Ok(values) => arguments.extend(values),
                    Err(more) => add_new(problems.get_or_insert_default(), more),
                },
                Ok(value) => arguments.push((value, arg.span)),
                Err(more) => add_new(problems.get_or_insert_default(), more),
            }
        }
        problems.map_or(Ok(arguments), Err)
    }

    /// The first argument that can be evaluated.
    fn call_try(&self, args: &[Expr], span: Span) -> Outcome {
        let mut reasons = Vec::new();
        for arg in args {
            match self.eval(arg) {
                Ok(value) => return Ok(value),
                Err(problems) => {
                    self.budget.work(1).map_err(|limit| exceeded(limit, span))?;
                    reasons.extend(problems.into_iter().next());
                }
            }
        }
        if args.is_empty() {
            return Err(fail(span, "`try` needs at least one argument"));
        }
        let mut message = String::from("no argument of `try` can be evaluated");
        for reason in reasons.iter().take(5) {
            message.push_str("; ");
            message.push_str(&reason.message);
        }
        let help = "give a last argument that always works, such as `null`";
        Err(vec![Problem::new(span, message).help(help)])
    }

    fn call_can(&self, args: &[Expr], span: Span) -> Outcome {
        let [arg] = args else {
            return Err(fail(span, "`can` takes exactly one argument"));
        };
        let outcome = self.eval(arg);
        // An empty budget is no answer.
        self.budget.work(1).map_err(|limit| exceeded(limit, span))?;
        Ok(Value::Bool(outcome.is_ok()))
    }
}

fn unknown_function(name: &Ident) -> Problem {
    let problem = Problem::new(name.span, format!("there is no function named `{}`", name.text));
    match did_you_mean(&name.text, functions::names()) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

fn expand_argument(value: &Value, span: Span) -> Outcome<Vec<Argument>> {
    if value.is_null() {
        return Err(fail(span, "the value in front of `...` must not be null"));
    }
    match value.as_items() {
        Some(items) => Ok(items.iter().map(|item| (item.clone(), span)).collect()),
        None => {
            let name = value.described();
            Err(fail(span, format!("`...` needs a list, set or tuple, and this is {name}")))
        }
    }
}

fn check_count(function: &Function, arguments: &[Argument], span: Span) -> Outcome<()> {
    let (given, wanted) = (arguments.len(), function.parameters.len());
    let plural = if wanted == 1 { "" } else { "s" };
    if let Some(missing) = function.parameters.get(given) {
        let least = if function.rest.is_some() { "at least " } else { "" };
        let problem = Problem::new(
            span,
            format!(
                "`{}` expects {least}{wanted} argument{plural}; the value for \"{}\" is missing",
                function.name, missing.name
            ),
        );
        return Err(vec![problem.help(format!("write `{}`", function.signature()))]);
    }
    match arguments.get(wanted) {
        Some((_, extra)) if function.rest.is_none() => {
            let message = format!("`{}` expects only {wanted} argument{plural}", function.name);
            let problem = Problem::new(*extra, message);
            Err(vec![problem.help(format!("write `{}`", function.signature()))])
        }
        _ => Ok(()),
    }
}

fn convert_arguments(function: &Function, arguments: Vec<Argument>) -> Outcome<Vec<Value>> {
    let mut values = Vec::with_capacity(arguments.len());
    let mut problems = None;
    for (index, (value, span)) in arguments.into_iter().enumerate() {
        let Some(parameter) = function.parameter(index) else {
            continue;
        };
        let converted = match value.is_null() && !parameter.null {
            true => Err("it must not be null".to_string()),
            false => convert(&value, &parameter.wanted.kind()).map_err(|e| e.to_string()),
        };
        match converted {
            Ok(value) => values.push(value),
            Err(reason) => {
                let problem = invalid(parameter.name, &reason, span);
                add_new(problems.get_or_insert_default(), vec![problem]);
            }
        }
    }
    problems.map_or(Ok(values), Err)
}

fn invalid(parameter: &str, reason: &str, span: Span) -> Problem {
    Problem::new(span, format!("Invalid value for \"{parameter}\" parameter: {reason}"))
}

fn report(function: &Function, failure: Failure, spans: &[Span], span: Span) -> Vec<Problem> {
    let culprit = failure.argument.and_then(|index| {
        let parameter = function.parameter(index)?;
        Some((parameter.name, *spans.get(index)?))
    });
    let problem = match culprit {
        Some((parameter, at)) => invalid(parameter, &failure.message, at),
        None => {
            Problem::new(span, format!("Call to `{}` failed: {}", function.name, failure.message))
        }
    };
    vec![match failure.help {
        Some(help) => problem.help(help),
        None => problem,
    }]
}
