package referencehost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"wopcert/reference-host/internal/effects"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

const effectSeamsPath = "/host/effect-seams"

// replayFamilies are those of forks, effects and their undoing.
func (h *Host) replayFamilies() familySet {
	sources := make([]any, 0)
	for _, source := range engine.NondeterministicSources() {
		sources = append(sources, source)
	}
	return familySet{
		"replay": {
			"modes": []any{forkReplay, forkBranch}, "effectSeamsManifest": effectSeamsPath,
			"retention": map[string]any{"days": h.config.Effects.RetentionDays},
		},
		"idempotency":          {"crossRegion": "single-region"},
		"nondeterminismPolicy": {"declared": true, "sources": sources},
		"compensation": {
			"profileVersion": compensationProfile, "orderingModels": orderingModels(), "manualIntervention": true,
		},
	}
}

func (h *Host) replayRoutes() map[string]route {
	return map[string]route{
		"getEffectSeamManifest": {answer: h.getEffectSeamManifest},
		"getRunEffects":         {answer: h.getRunEffects},
		"getRunCompensation":    {answer: h.getRunCompensation},
	}
}

// effectSeam is one row of the effect-seam manifest.
type effectSeam struct {
	Seam          string `json:"seam"`
	Kind          string `json:"kind"`
	Guarded       bool   `json:"guarded"`
	GuardedBy     string `json:"guardedBy"`
	BranchReFires bool   `json:"branchReFires"`
	Note          string `json:"note,omitempty"`
}

// effectSeams lists every way an effect can leave by. A new way out has to be listed here, and guarded.
func (h *Host) effectSeams() []effectSeam {
	seams := []effectSeam{
		{Seam: engine.SeamHTTP, Kind: "http", Guarded: true, GuardedBy: effects.GuardName, BranchReFires: true},
		{Seam: engine.SeamArtifact, Kind: "storage", Guarded: true, GuardedBy: effects.GuardName, BranchReFires: true},
	}
	if h.advertises("webhooks") {
		seams = append(seams, effectSeam{
			Seam: "webhook.delivery", Kind: "webhook-fanout", Guarded: true, GuardedBy: "webhook-outbox", BranchReFires: true,
			Note: "What a fork inherits, and whatever a replay records, is delivered to nobody.",
		})
	}
	if h.advertises("interrupt") {
		seams = append(seams, effectSeam{
			Seam: "interrupt.callback", Kind: "http", Guarded: true, GuardedBy: "callback-outbox",
			Note: "A fork has no callbackUrl of its own.",
		})
	}
	return seams
}

// buildID is what the host was built as.
type buildID struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (h *Host) getEffectSeamManifest(*request) (*answer, error) {
	build, err := h.build()
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, map[string]any{
		"manifestVersion": "1",
		"host":            map[string]any{"name": h.config.Implementation.Name, "build": build},
		"seams":           h.effectSeams(),
	}), nil
}

// readBuild names the bytes of the program.
func readBuild() (buildID, error) {
	name, err := os.Executable()
	if err != nil {
		return buildID{}, fmt.Errorf("the host's build: %w", err)
	}
	file, err := os.Open(name)
	if err != nil {
		return buildID{}, fmt.Errorf("the host's build: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return buildID{}, fmt.Errorf("the host's build: %w", err)
	}
	return buildID{"artifact-sha256", hex.EncodeToString(sum.Sum(nil))}, nil
}

// buildReader reads the build when somebody asks, once.
func buildReader() func() (buildID, error) { return sync.OnceValues(readBuild) }

// retention is how long a run that has ended can be forked.
func (h *Host) retention() time.Duration {
	return time.Duration(h.facetInt(int64(h.config.Effects.RetentionDays), "replay", "retention", "days")) * 24 * time.Hour
}

// checkRetention refuses a fork of a run whose range is not kept any more (replay.md §Retention).
func (h *Host) checkRetention(source eventlog.Log, events []eventlog.Event, from int64) error {
	if h.facet("replay", "retention", "days") == nil || len(events) == 0 {
		return nil
	}
	kept := events[len(events)-1].Timestamp
	if taken := source.Run().CreatedAt; taken.After(kept) {
		kept = taken // a run of a v1 host is kept from when it came here
	}
	expired := kept.Add(h.retention())
	if standing := eventlog.StandingOf(source.Run(), events); !standing.Ended() || h.clock.Now().Before(expired) {
		return nil
	}
	return h.codes.expired(source.Run().ID, from, stamp(expired))
}

func asNodeError(err error, own **NodeError) bool { return errors.As(err, own) }

func isExists(err error) bool { return errors.Is(err, eventlog.ErrExists) }
