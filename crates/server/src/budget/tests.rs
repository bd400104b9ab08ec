//! Budgets without sockets: connections are tasks that wait for ever.

use super::*;
use crate::access::{Permissions, TokenRecord};
use crate::token::NewToken;
use tokio::task::JoinHandle;

fn record() -> TokenRecord {
    let token = NewToken::generate().unwrap();
    let permissions = Permissions::ALL;
    TokenRecord { id: token.id, hash: token.hash(), tenant: "acme".to_owned(), permissions }
}

/// A connection of a budget, if there was room for it.
fn open(budget: &Arc<ConnectionBudget>, tokens: &Tokens) -> Option<(Registration, JoinHandle<()>)> {
    let place = budget.admit(tokens)?;
    let registration = place.registration();
    let task = tokio::spawn(async move {
        let _place = place;
        std::future::pending::<()>().await;
    });
    registration.served_by(task.abort_handle());
    Some((registration, task))
}

async fn passed(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_budget_closes_the_oldest_that_has_not_authenticated() {
    let known = record();
    let tokens = Tokens::required(vec![known.clone()]);
    let budget = ConnectionBudget::new(3);
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(open(&budget, &tokens).unwrap());
        passed(Duration::from_millis(1)).await;
    }
    connections[0].0.authenticated(known.id);
    let fourth = open(&budget, &tokens).unwrap();
    passed(Duration::from_millis(1)).await;
    assert!(!budget.is_exceeded());
    let ended: Vec<bool> = connections.iter().map(|(_, task)| task.is_finished()).collect();
    assert_eq!(ended, [false, true, false]);
    connections[2].0.authenticated(known.id);
    fourth.0.authenticated(known.id);
    assert!(open(&budget, &tokens).is_none(), "authenticated connections stay");
    assert!(!fourth.1.is_finished());
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_without_a_token_close_a_connection() {
    let known = record();
    let tokens = Tokens::required(vec![known.clone()]);
    let budget = ConnectionBudget::new(10);
    let (silent, in_time) = (open(&budget, &tokens).unwrap(), open(&budget, &tokens).unwrap());
    passed(Duration::from_secs(9)).await;
    budget.sweep(&tokens);
    in_time.0.authenticated(known.id);
    passed(Duration::from_millis(1)).await;
    assert!(!silent.1.is_finished());
    passed(Duration::from_secs(1)).await;
    budget.sweep(&tokens);
    passed(Duration::from_secs(600)).await;
    budget.sweep(&tokens);
    assert_eq!((silent.1.is_finished(), in_time.1.is_finished()), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_has_to_be_replaced_within_ten_seconds() {
    let (known, other) = (record(), record());
    let tokens = Tokens::required(vec![known.clone(), other.clone()]);
    let budget = ConnectionBudget::new(10);
    let connections: Vec<_> = (0..3).map(|_| open(&budget, &tokens).unwrap()).collect();
    connections[0].0.authenticated(known.id);
    connections[1].0.authenticated(other.id);
    connections[2].0.authenticated(known.id);
    tokens.replace(vec![other.clone()]);
    budget.sweep(&tokens);
    connections[2].0.authenticated(other.id);
    passed(Duration::from_secs(10)).await;
    budget.sweep(&tokens);
    passed(Duration::from_millis(1)).await;
    let ended: Vec<bool> = connections.iter().map(|(_, task)| task.is_finished()).collect();
    assert_eq!(ended, [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn without_tokens_nobody_is_closed_for_another() {
    let tokens = Tokens::not_required();
    let budget = ConnectionBudget::new(1);
    let only = open(&budget, &tokens).unwrap();
    assert!(open(&budget, &tokens).is_none());
    passed(Duration::from_secs(600)).await;
    budget.sweep(&tokens);
    passed(Duration::from_millis(1)).await;
    assert!(!only.1.is_finished());
    only.1.abort();
    passed(Duration::from_millis(1)).await;
    assert!(open(&budget, &tokens).is_some());
}
