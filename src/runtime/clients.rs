//! The connections that have initialized: who gets what is told to all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::{Client, ConnectionId, Event};

/// The registry of initialized connections.
#[derive(Debug, Default)]
pub struct Clients {
    /// Held only to copy in and out.
    connected: Mutex<BTreeMap<ConnectionId, Arc<dyn Client>>>,
}

impl Clients {
    /// A connection has initialized.
    pub fn add(&self, client: Arc<dyn Client>) {
        self.lock().insert(client.id(), client);
    }

    /// A connection is gone.
    pub fn remove(&self, id: ConnectionId) {
        self.lock().remove(&id);
    }

    /// Send an event to every connection.
    pub fn broadcast(&self, event: &Event) {
        let clients: Vec<Arc<dyn Client>> = self.lock().values().cloned().collect();
        for client in clients {
            client.send(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, Arc<dyn Client>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
