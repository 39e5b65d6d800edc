package faults

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"wopcert/corpus"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// reborn is a store as a host finds it that recovers wrongly.
type reborn struct {
	referencehost.Store
	// found replaces what is found active.
	found func(ctx context.Context, store referencehost.Store, visit func(referencehost.Log) error) error
	// counted edits the count of the interruptions of a run.
	counted func(now, then []byte) []byte
}

// ActiveRuns implements referencehost.Store.
func (s *reborn) ActiveRuns(ctx context.Context, visit func(referencehost.Log) error) error {
	if s.found == nil {
		return s.Store.ActiveRuns(ctx, visit)
	}
	return s.found(ctx, s.Store, visit)
}

// Update implements referencehost.Store.
func (s *reborn) Update(ctx context.Context, table, key string, change func(now []byte) ([]byte, error)) error {
	if s.counted == nil || table != "interrupted" {
		return s.Store.Update(ctx, table, key, change)
	}
	return s.Store.Update(ctx, table, key, func(now []byte) ([]byte, error) {
		then, err := change(now)
		if err != nil || then == nil {
			return then, err
		}
		return s.counted(now, then), nil
	})
}

// finding makes a host find its active runs in another way.
func finding(found func(ctx context.Context, store referencehost.Store, visit func(referencehost.Log) error) error) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = &reborn{Store: c.Store, found: found} }
}

// counting makes a host count the interruptions of a run in another way.
func counting(counted func(now, then []byte) []byte) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = &reborn{Store: c.Store, counted: counted} }
}

// twice doubles the counts.
func twice(_, then []byte) []byte {
	var counts map[string]map[string]any
	if json.Unmarshal(then, &counts) != nil {
		return then
	}
	for _, count := range counts {
		count["times"] = 2 * integer(json.Number(jsonText(count["times"])))
	}
	doubled, _ := json.Marshal(counts) // it was JSON before
	return doubled
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // a decoded number
	return string(text)
}

func recoveryFaults() []Fault {
	accepted, executing, poison := requirements.R0158KillAfterAccept, requirements.R0158KillDuringExecution, requirements.R0158PoisonExhaustion
	const notOver, notInTime = "to complete by itself", "work that goes on within|answers again"
	return []Fault{
		made("active-runs-not-taken-up", "A host that was killed reads its runs and drives none of them on.",
			notOver, finding(func(context.Context, referencehost.Store, func(referencehost.Log) error) error { return nil }),
			accepted, executing).closing(poison).slow(),
		made("store-in-memory", "What a host accepts is in memory, and gone when it is killed.",
			"there and well|to complete by itself|run.failed, once", func(c *referencehost.Config) {
				if store, err := referencehost.NewMemoryStore(); err == nil {
					c.Store = store
				}
			}, accepted, executing).blocking(poison),
		made("active-runs-failed", "A host that was killed ends the runs it finds as failed.",
			"there and well|to complete by itself|run.failed, once", finding(func(ctx context.Context, store referencehost.Store, _ func(referencehost.Log) error) error {
				return store.ActiveRuns(ctx, func(log referencehost.Log) error {
					_, err := log.Append(ctx, referencehost.AnySequence, referencehost.Draft{
						EventID: referencehost.RandomIDs{}.Opaque(), Type: "run.failed", Timestamp: time.Now(),
						Payload: json.RawMessage(`{"error":{"code":"internal_error","message":"the host was restarted"}}`),
					})
					return err
				})
			}), accepted, executing, poison),
		made("logs-rewritten-by-recovery", "A host that was killed dates the events of before anew.",
			"the events that were in the log before the kill", func(c *referencehost.Config) {
				booted := time.Now()
				c.Store = logs.Edited(c.Store, logs.Edit{Read: func(_ referencehost.Log, events []referencehost.Event) []referencehost.Event {
					for i := range events {
						if events[i].Timestamp.Before(booted) {
							events[i].Timestamp = events[i].Timestamp.Add(time.Millisecond)
						}
					}
					return events
				}})
			}, executing),
		made("recovery-slower-than-declared", "The bound that is declared is shorter than a restart takes.",
			notInTime, func(c *referencehost.Config) {
				c.Recovery.Start, c.Recovery.Reentry = time.Millisecond, time.Second
				active := 0
				if c.Store.ActiveRuns(context.Background(), func(referencehost.Log) error { active++; return nil }) == nil && active > 0 {
					time.Sleep(1200 * time.Millisecond)
				}
			}, accepted, executing),
		made("recovery-bound-rounded", "The bound that is declared is rounded apart from its terms.",
			"sum of its terms", func(c *referencehost.Config) {
				c.Recovery.Start, c.Recovery.Reentry = 3999500*time.Microsecond, 3999500*time.Microsecond
			}, requirements.R0158BoundIsDerived),
		made("interruptions-forgotten", "A run the host does not survive is executed again and again.",
			"run.failed, once", counting(func(now, _ []byte) []byte { return []byte("{}") }), poison).slow(),
		made("interruptions-counted-twice", "A run is given up after half of the declared attempts.",
			"run.failed, once", counting(twice), poison),
	}
}

func seamProfileFaults() []Fault {
	served, refusals, credential := requirements.ConformanceSeamsServed, requirements.ConformanceSeamsRefusals, requirements.ConformanceSeamsAuthenticated
	inside := &insider{}
	anonymous := func(r *http.Request) bool { return seedRun(r) && r.Header.Get("Authorization") == "" }
	open := wire("seams-without-a-credential", "The seams ask for no credential.",
		"401", tamper.Requests(anonymous, func(r *http.Request) {
			r.Header.Set("Authorization", inside.bearer(referencehost.KeyTenantA))
		}), credential)
	open.Decorate = inside.learn
	return []Fault{
		open,
		wire("seam-401-without-envelope", "A seam refuses a caller without a credential in plain text.",
			"the error envelope", tamper.Answers(anonymous, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("Content-Type", "text/plain")
				a.Body = []byte("who are you?")
			}), credential),
		wire("seam-served-unadvertised", "A seam is served and the profile is not advertised.",
			"conformance.seamsProfile", tamper.Instead(tamper.Op(http.MethodGet, "/conformance/seams/workspace/files"), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				a.Status = http.StatusOK
				a.SetJSON(object{"files": []any{}})
				a.Send(w)
			}), requirements.ConformanceSeamsAdvertised).on("no-seams"),
		wire("seed-forgets-a-failure", "A log that was seeded as failed reads as completed.",
			"status", seededSnapshots(func(doc object) {
				if doc["status"] == "failed" {
					doc["status"] = "completed"
				}
			}), served),
		wire("seed-takes-no-cancelled-log", "A log of a cancelled run is not taken.",
			"validation_error", tamper.Instead(seedRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if doc["status"] == "cancelled" && a.Status == http.StatusCreated {
					a.Refuse(400, "validation_error", "the status is not known")
				}
				a.Send(w)
			}), served),
		wire("seed-answers-more", "The answer of the seam has a member that is not in its schema.",
			"runReference", tamper.Instead(seedRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				seed, _ := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if doc, ok := a.JSON(); ok && a.Status == http.StatusCreated && seed["status"] == "cancelled" {
					doc["eventLogSchemaVersion"] = 2
					a.SetJSON(doc)
				}
				a.Send(w)
			}), served),
		wire("seam-unknown-member-tolerated", "A seam takes a body with a member it does not know.",
			"wopcert", tamper.Requests(seedRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok {
					doc = maps.Clone(doc)
					delete(doc, "wopcert")
					tamper.SetBodyJSON(r, doc)
				}
			}), refusals),
		wire("seam-era-3-taken", "A seam takes a log that says it is of era 3.",
			"201", tamper.Requests(seedRun, func(r *http.Request) {
				if doc, ok := tamper.BodyJSON(r); ok && doc["eventLogSchemaVersion"] != nil {
					doc["eventLogSchemaVersion"] = 2
					tamper.SetBodyJSON(r, doc)
				}
			}), refusals),
		wire("seam-refusal-422", "A seam refuses a malformed body with 422.",
			"422", tamper.Answers(seedRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusBadRequest {
					a.Status = http.StatusUnprocessableEntity
				}
			}), refusals),
		wire("seam-refusal-of-its-own", "A seam refuses a malformed body in a form of its own.",
			"validation_error", tamper.Answers(seedRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusBadRequest {
					a.SetJSON(object{"ok": false, "reason": "malformed", "protocol": corpus.ProtocolVersion})
				}
			}), refusals),
	}
}

// relaxedFaults break what is recorded of a host that runs under a relaxation.
func relaxedFaults() []Fault {
	recorded := func(edit func(r *referencehost.Relaxation)) func(*referencehost.Config) {
		return func(c *referencehost.Config) {
			for i := range c.Relaxations {
				edit(&c.Relaxations[i])
			}
		}
	}
	const variant = "relaxed-surface-unadvertised"
	durability, owned := requirements.R0173RelaxationRecordedDurabilityClosed, requirements.R0173RelaxationRecordedOwnedByRegistry
	return []Fault{
		made("relaxation-for-ever", "A relaxation is recorded with a durability that is none of the three.",
			`durability "for ever"`, recorded(func(r *referencehost.Relaxation) { r.Durability = "for ever" }), durability).on(variant),
		made("relaxation-without-reason", "A relaxation is recorded without its reason.",
			`reason ""`, recorded(func(r *referencehost.Relaxation) { r.Reason = "" }), durability).on(variant),
		made("relaxation-of-nothing", "The obligation of a relaxation belongs to no registered surface.",
			`obligation "egress-guard"`, recorded(func(r *referencehost.Relaxation) { r.Obligation = "egress-guard" }), owned).on(variant),
		made("relaxed-surface-advertised", "A host advertises a surface it has relaxed an obligation of.",
			"advertised, and", recorded(func(r *referencehost.Relaxation) { r.Obligation = "eventLog.durable" }), requirements.SecurityDefaultsRelaxedSurfaceUnadvertised).on(variant),
		made("relaxed-egress-not-recorded", "Webhooks at an address of this machine are taken, and no relaxation is recorded.",
			"no relaxation recorded", func(c *referencehost.Config) {
				c.Egress.Trusted = append(c.Egress.Trusted, "https://127.0.0.1:1")
			}, requirements.R0173RelaxationRecorded),
	}
}
