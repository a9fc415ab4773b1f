//! Tokens change while everybody stays connected.

use super::*;

fn tokens(agents: &str, api: &str) -> String {
    format!(
        "  agent_tokens = [{agents}]\n  api_tokens = [{api}]\n  tls {{\n    enabled = false\n  }}\n"
    )
}

#[test]
fn tokens_are_rotated_by_a_signal_and_nobody_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let git = git(&repository(folder));
    let server = ServerProgram::start(folder, &(tokens("\"old\"", "\"api-old\"") + &git), &[]);
    let warned = server.program.says(&["number 1 of api_tokens has fewer than 16 characters"]);
    assert!(!warned.contains("api-old"), "{warned}");
    let url = format!("grpc://{}", server.grpc);
    let first = agent(folder, "first", &url, "old", &[]);
    server.agents_show(&["first", "in_sync"]);

    // Both are good.
    server.reload(&(tokens("\"old\", \"new\"", "\"api-new\"") + &git));
    server.program.says(&["tokens were read again"]);
    let _second = agent(folder, "second", &url, "new", &[]);
    server.agents_show(&["first", "second"]);
    let http = format!("http://{}", server.http);
    let call = |token: &str| {
        server.fluke(&["get", "agents", "--server", &http], &[("FLUKE_API_TOKEN", token)])
    };
    assert_eq!(call("api-new").0, Some(0), "{}", call("api-new").1);
    let (code, said) = call("api-old");
    assert!(code == Some(1) && said.contains("may have been replaced"), "{said}");

    // A config that cannot be read changes nothing, and says so.
    server.reload(&(tokens("\"newest\"", "") + &git + "  nonsense = 1\n"));
    let said = server.program.says(&["the old tokens stay in force"]);
    assert!(said.contains("nonsense"), "{said}");
    let _third = agent(folder, "third", &url, "new", &[]);
    server.agents_show(&["third"]);

    // The old one is good no more; whoever came with it stays.
    server.reload(&(tokens("\"new\"", "\"api-new\"") + &git));
    let late = agent(folder, "late", &url, "old", &[]);
    late.says(&["does not accept the token"]);
    server.agents_show(&["first", "second", "third"]);
    let (_, shown) = server.fluke(&["get", "agents"], &[]);
    assert!(!shown.contains("offline") && !shown.contains("late"), "{shown}");
    assert_eq!(first.log().matches(" connected").count(), 1, "{}", first.log());
    let (_, events) = server.fluke(&["get", "events", "-o", "json"], &[]);
    assert!(events.contains("a wrong token (1 from this address)"), "{events}");
}
