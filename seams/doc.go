// Package seams describes the operations of the profile openwop-conformance-seams-v2
// and makes the requests for those a suite drives (conformance.md §The seams profile).
//
// The seams are how a suite gets at what the canonical API has no operation for. A
// host that mounts them says so in conformance.seamsProfile of its discovery document
// and nowhere else; they live below Root, they belong to no path manifest, and they
// take the credential every other operation takes. Bodies are held to the schemas of
// the contract with no tolerance: an unknown member is refused with 400
// validation_error in the canonical error envelope.
//
//	SeedLog         POST  /sample/event-log/seed            a run whose log is in version 1 vocabulary
//	FireEffect      POST  /sample/effect-seams/fire         a run that drives one effect seam of the host once
//	RetryEffect     POST  /sample/test/idempotency/effect-retry
//	                                                        one effect, sent and sent again at the transport
//	ReceiveWebhook  POST  /sample/webhooks/receive          the host as a subscriber: accepts it this delivery?
//
// The package knows the wire and no host. What comes back is read by whoever sends the
// Call; Call.Response names the schema of a success.
package seams
