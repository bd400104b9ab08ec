//! Asks sentinels which server is the master.
//!
//! In turn, beginning with the one that answered last. What a sentinel says is checked with the server itself
//! when it is connected (`ROLE`), since a sentinel may lag behind; nothing here decides who leads.

use super::address::Address;
use super::deadline::Deadline;
use super::dial::Purpose;
use super::link::Link;
use super::servers::Servers;
use super::wire::{Commands, Value};
use std::sync::Arc;

pub(super) struct Sentinels {
    /// The one that answered last comes first.
    addresses: Vec<Address>,
    master: String,
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<Address>, master: String) -> Self {
        Sentinels { addresses, master }
    }

    /// Polls the sentinels, and follows the master that the first of them names.
    pub(super) async fn poll(&mut self, servers: &Arc<Servers>) -> Result<(), String> {
        let mut problems = Vec::new();
        for place in 0..self.addresses.len() {
            let sentinel = &self.addresses[place];
            match ask(servers, sentinel, &self.master).await {
                Ok(master) => {
                    servers.adopt_one(&master);
                    self.addresses[..=place].rotate_right(1);
                    return Ok(());
                }
                Err(problem) => problems.push(format!("sentinel {sentinel}: {problem}")),
            }
        }
        Err(problems.join("; "))
    }
}

async fn ask(servers: &Servers, sentinel: &Address, master: &str) -> Result<Address, String> {
    let connected = servers.dialer.connect(sentinel, Purpose::Sentinel).await?;
    let link = Link::new(&connected);
    let mut command = Commands::default();
    command.add(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]);
    let deadline = Deadline::after(servers.dialer.options.connect_timeout());
    let answers = tokio::select! {
        answers = link.send(&command, deadline) => answers.map_err(|error| error.to_string())?,
        () = connected.driver => return Err("it closed the connection".to_owned()),
    };
    read(answers.first(), master, sentinel)
}

fn read(answer: Option<&Value>, master: &str, sentinel: &Address) -> Result<Address, String> {
    let parts = match answer {
        Some(Value::Array(parts)) => parts,
        Some(Value::Nil) => return Err(format!("it knows no master named {master:?}")),
        Some(Value::ServerError(error)) => return Err(error.to_string()),
        _ => return Err("its answer makes no sense".to_owned()),
    };
    let nonsense = || "its answer makes no sense".to_owned();
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return Err(nonsense()) };
    let host = std::str::from_utf8(host).map_err(|_| nonsense())?;
    let port: Option<u16> = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
    let port = port.filter(|port| *port != 0).ok_or_else(nonsense)?;
    Address::reported(host, port, sentinel).ok_or_else(nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn only_a_host_and_a_port_name_a_master() {
        let sentinel = Address::tcp("10.0.0.1", 26379);
        let master = |answer| read(Some(&answer), "m", &sentinel).map(|address| address.to_string());
        let named = Value::Array(vec![bulk("10.0.0.9"), bulk("6379")]);
        assert_eq!(master(named), Ok("10.0.0.9:6379".to_owned()));
        assert_eq!(master(Value::Nil), Err("it knows no master named \"m\"".to_owned()));
        let wrong = [
            Value::SimpleString("OK".to_owned()),
            Value::Array(vec![]),
            Value::Array(vec![bulk("h")]),
            Value::Array(vec![bulk("h"), bulk("0")]),
            Value::Array(vec![bulk("h"), bulk("x")]),
            Value::Array(vec![bulk("h"), Value::Int(1)]),
            Value::Array(vec![Value::BulkString(vec![0xff]), bulk("1")]),
            Value::Array(vec![bulk("h"), bulk("1"), bulk("2")]),
        ];
        for answer in wrong {
            assert!(master(answer.clone()).is_err(), "{answer:?}");
        }
    }
}
