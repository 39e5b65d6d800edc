// Package referencehost is a complete OpenWOP v2 host in the memory of one process. It is what the suite is tested
// against, and what a client author or a newcomer starts to have a real host on loopback within a second.
//
// An event log per run is the only state a run has (events.md). Creating a run writes its first event; the engine appends
// the rest; the snapshot, the list, the stream and the poll are folds of the log. Annotations and the content of
// artifacts are kept beside the logs; the log announces an artifact and knows of no annotation. Time comes from one Clock, ids from one
// IDs, everything persistent from one Store: they are interfaces of Config. Every request to the outside leaves through one
// guarded Sender. Config.Wrap puts handlers in front of the host's own and Config.WrapSender couriers in front of its way
// out, so that a test, a fault or a variant changes the host from outside: the host's own code knows of none.
//
// The host speaks major 2 only, so it has no bare run ids and no /v1 paths, and it advertises a capability family only
// when the whole obligation of the family works.
package referencehost
