package referencehost

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/reference-host/internal/era"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/webhook"
)

// Webhooks say how the host delivers events to the webhooks of its tenants. What a facet of the family is for is also
// advertised, and can be set by Config.Families.
type Webhooks struct {
	// MaxAttempts and Backoff ("none", "fixed" or "exponential") are advertised as retryPolicy. Delay is the wait after
	// the first attempt.
	MaxAttempts int
	Backoff     string
	Delay       time.Duration
	// AttemptTimeout bounds one attempt.
	AttemptTimeout time.Duration
	// RetentionDays and MaxPageSize are advertised as deadLetter.
	RetentionDays, MaxPageSize int
	// OverlapSeconds is advertised as secretRotation.
	OverlapSeconds int
	// LegacyHeaders adds the X-openwop family to every delivery, as a host that serves major 1 as well has to.
	LegacyHeaders bool
}

// defaultWebhooks retry soon: who tries this host out does not want to wait for a dead letter.
func defaultWebhooks() Webhooks {
	return Webhooks{
		MaxAttempts: 4, Backoff: webhook.BackoffExponential, Delay: 40 * time.Millisecond, AttemptTimeout: 10 * time.Second,
		RetentionDays: 30, MaxPageSize: 100, OverlapSeconds: 60 * 60,
	}
}

// webhookFamilies is the family with all of its facets.
func (h *Host) webhookFamilies() familySet {
	w := h.config.Webhooks
	return familySet{"webhooks": {
		"signatureAlgorithms": []any{webhook.SchemeV1, webhook.SchemeStandard},
		"retryPolicy":         map[string]any{"maxAttempts": w.MaxAttempts, "backoff": w.Backoff},
		"deadLetter":          map[string]any{"retentionDays": w.RetentionDays, "maxPageSize": w.MaxPageSize},
		"secretRotation":      map[string]any{"overlapSeconds": w.OverlapSeconds},
	}}
}

func (h *Host) webhookRoutes() map[string]route {
	return map[string]route{
		"registerWebhook":        {answer: h.registerWebhook},
		"unregisterWebhook":      {answer: h.unregisterWebhook},
		"listWebhookDeadLetters": {answer: h.listWebhookDeadLetters},
		"rotateWebhookSecret":    {answer: h.rotateWebhookSecret},
	}
}

// startWebhooks begins to deliver, when the family is advertised.
func (h *Host) startWebhooks() (err error) {
	if !h.advertises("webhooks") {
		return nil
	}
	w := h.config.Webhooks
	backoff, _ := h.facet("webhooks", "retryPolicy", "backoff").(string)
	if backoff == "" {
		backoff = w.Backoff
	}
	h.hooks, err = webhook.New(webhook.Config{
		Store: h.store, Sender: h.sender, Clock: h.clock, Logger: h.logger, Limits: webhook.DefaultLimits(),
		Retry: webhook.RetryPolicy{
			MaxAttempts: int(h.facetInt(int64(w.MaxAttempts), "webhooks", "retryPolicy", "maxAttempts")), Backoff: backoff, Base: w.Delay,
		},
		AttemptTimeout: w.AttemptTimeout,
		Retention:      time.Duration(h.facetInt(int64(w.RetentionDays), "webhooks", "deadLetter", "retentionDays")) * 24 * time.Hour,
		Overlap:        time.Duration(h.facetInt(int64(w.OverlapSeconds), "webhooks", "secretRotation", "overlapSeconds")) * time.Second,
		Legacy:         w.LegacyHeaders,
		Unprojectable: func(err error) bool {
			var malformed *era.MalformedError
			return errors.As(err, &malformed)
		},
	})
	return err
}

// webhookOutbox is what has to be delivered because of events.
func (h *Host) webhookOutbox(run eventlog.Run, events []eventlog.Event) []eventlog.TableWrite {
	if h.hooks == nil {
		return nil
	}
	return h.hooks.Outbox(run, events)
}

// registration is the registerWebhook body once the schema has accepted it.
type registration struct {
	URL                 string   `json:"url"`
	Events              []string `json:"events"`
	Secret              *string  `json:"secret"`
	Tags                []string `json:"tags"`
	SignatureAlgorithms []string `json:"signatureAlgorithms"`
}

// registered is the registerWebhook response. Secret is there only when the host made it (webhooks.md §Surfaces).
type registered struct {
	WebhookID           string   `json:"webhookId"`
	Secret              string   `json:"secret,omitempty"`
	SignatureAlgorithms []string `json:"signatureAlgorithms,omitempty"`
}

func (h *Host) registerWebhook(r *request) (*answer, error) {
	var body registration
	if err := h.requiredBody(r, "webhook-create", &body); err != nil {
		return nil, err
	}
	standard, err := h.checkRegistration(&body)
	if err != nil {
		return nil, err
	}
	tenant := r.principal.tenant()
	made := registered{WebhookID: tenant + "/" + h.ids.Opaque(), SignatureAlgorithms: body.SignatureAlgorithms}
	secret := made.Secret
	if body.Secret != nil {
		secret = *body.Secret
	} else {
		made.Secret = newWebhookSecret()
		secret = made.Secret
	}
	if standard {
		if err := h.verifyEndpoint(r.Context(), tenant, body.URL, secret); err != nil {
			return nil, err
		}
	}
	err = h.hooks.Subscribe(context.WithoutCancel(r.Context()), webhook.Subscription{
		ID: made.WebhookID, Tenant: tenant, URL: body.URL, Events: body.Events, Tags: body.Tags, Standard: standard, Secret: secret,
	})
	if errors.Is(err, webhook.ErrTooMany) {
		return nil, h.codes.busy("webhooks of the tenant")
	}
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusCreated, made), nil
}

// checkRegistration applies what the schema cannot say, and reports whether the subscription opts into Standard
// Webhooks.
func (h *Host) checkRegistration(body *registration) (standard bool, err error) {
	for _, eventType := range body.Events {
		if !h.knownEvent(eventType) {
			return false, h.codes.invalid("events", "An event type is not one of version 2, nor of a registered organisation.")
		}
	}
	listed := h.facetWords("webhooks", "signatureAlgorithms")
	for _, algorithm := range body.SignatureAlgorithms {
		if !slices.Contains(listed, algorithm) {
			return false, h.codes.invalid("signatureAlgorithms", "This host does not list the signature algorithm.")
		}
	}
	standard = slices.Contains(body.SignatureAlgorithms, webhook.SchemeStandard)
	if standard {
		if err := h.checkStandardSecret(*body.Secret); err != nil {
			return false, err
		}
	}
	if err := h.egress.CheckURL(body.URL); err != nil {
		return false, h.codes.webhookURL()
	}
	return standard, nil
}

// knownEvent reports whether a run of this host may hold events of the type (events.md §Types).
func (h *Host) knownEvent(eventType string) bool {
	if _, ok := h.contract.Event(eventType); ok {
		return true
	}
	org, _, more := strings.Cut(eventType, ".")
	return more && h.registeredOrg(org) && h.contract.ValidateValue("run-event#/$defs/vendorType", eventType) == nil
}

func (h *Host) checkStandardSecret(secret string) error {
	if _, ok := webhook.StandardKey(secret); !ok {
		return h.codes.invalid("secret", "The secret must be whsec_ and the base64 of 24 to 64 bytes.")
	}
	return nil
}

// verifyEndpoint asks the endpoint for its consent. Few questions of a tenant are out at a time, so that nobody can be
// flooded with them.
func (h *Host) verifyEndpoint(ctx context.Context, tenant, url, secret string) error {
	if !h.verifications.enter(tenant) {
		return h.codes.busy("verifications of endpoints under way")
	}
	defer h.verifications.leave(tenant)
	err := h.hooks.VerifyEndpoint(ctx, tenant, url, secret)
	if errors.Is(err, webhook.ErrUnverified) {
		return h.codes.unverifiedEndpoint()
	}
	return err
}

func newWebhookSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return webhook.NewSecret(random)
}

// webhookID reads the webhookId of a path. Like a runId it is held to the caller's tenant before anything is looked up.
func (h *Host) webhookID(r *request) (string, error) {
	id, ok := unproject(r.id)
	if !ok || !isRunID(id) {
		return "", h.codes.invalid("webhookId", "A webhookId is <tenantId>/<opaque>, as one path segment.")
	}
	if tenant, _, _ := strings.Cut(id, "/"); tenant != r.principal.tenant() {
		return "", h.codes.foreignID()
	}
	return id, nil
}

func (h *Host) unregisterWebhook(r *request) (*answer, error) {
	id, err := h.webhookID(r)
	if err != nil {
		return nil, err
	}
	err = h.hooks.Unsubscribe(context.WithoutCancel(r.Context()), id)
	if errors.Is(err, eventlog.ErrNotFound) {
		return nil, h.codes.missing("webhook")
	}
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent, header: make(http.Header)}, nil
}

// rotation is the rotateWebhookSecret response.
type rotation struct {
	RotatedAt               string `json:"rotatedAt"`
	PreviousSecretExpiresAt string `json:"previousSecretExpiresAt"`
}

func (h *Host) rotateWebhookSecret(r *request) (*answer, error) {
	id, err := h.webhookID(r)
	if err != nil {
		return nil, err
	}
	if !h.hooks.Has(id) {
		return nil, h.codes.missing("webhook")
	}
	var body struct {
		Secret string `json:"secret"`
	}
	if err := h.requiredBody(r, "webhook-rotate-request", &body); err != nil {
		return nil, err
	}
	if err := h.checkStandardSecret(body.Secret); err != nil {
		return nil, err
	}
	at, until, err := h.hooks.Rotate(context.WithoutCancel(r.Context()), id, body.Secret)
	switch {
	case errors.Is(err, eventlog.ErrNotFound):
		return nil, h.codes.missing("webhook")
	case errors.Is(err, webhook.ErrNotStandard):
		return nil, h.codes.invalid("webhookId", "The subscription did not opt into standard-webhooks-1; register it anew to change its secret.")
	case err != nil:
		return nil, err
	}
	return jsonAnswer(http.StatusOK, rotation{at.Format(eventlog.TimestampFormat), until.Format(eventlog.TimestampFormat)}), nil
}

// deadLetterPage is the listWebhookDeadLetters response.
type deadLetterPage struct {
	Deliveries []deadLetter `json:"deliveries"`
	NextCursor string       `json:"nextCursor,omitempty"`
}

// deadLetter is a dead letter with its times as this host writes them.
type deadLetter struct {
	webhook.DeadLetter
	DeadLetteredAt string `json:"deadLetteredAt"`
	ExpiresAt      string `json:"expiresAt"`
}

func (h *Host) listWebhookDeadLetters(r *request) (*answer, error) {
	id, err := h.webhookID(r)
	if err != nil {
		return nil, err
	}
	limit, after, err := h.deadLetterQuery(r, id)
	if err != nil {
		return nil, err
	}
	if !h.hooks.Has(id) {
		return nil, h.codes.missing("webhook")
	}
	letters, next, err := h.hooks.DeadLetters(r.Context(), id, after, limit)
	if err != nil {
		return nil, err
	}
	page := deadLetterPage{Deliveries: make([]deadLetter, 0, len(letters))}
	for _, letter := range letters {
		page.Deliveries = append(page.Deliveries, deadLetter{
			letter, letter.DeadLetteredAt.UTC().Format(eventlog.TimestampFormat), letter.ExpiresAt.UTC().Format(eventlog.TimestampFormat),
		})
	}
	if next != "" {
		page.NextCursor = h.deadLetterCursor(id, next)
	}
	return jsonAnswer(http.StatusOK, page), nil
}

// deadLetterQuery reads limit, which is clamped to what is advertised, and cursor, which is good for the subscription
// it was minted for.
func (h *Host) deadLetterQuery(r *request, id string) (limit int, after string, err error) {
	values, err := h.query(r, "limit", "cursor")
	if err != nil {
		return 0, "", err
	}
	most := h.facetInt(int64(h.config.Webhooks.MaxPageSize), "webhooks", "deadLetter", "maxPageSize")
	if text, ok := values["limit"]; ok {
		wanted, ok := parseNumber(text)
		if !ok || wanted < 1 {
			return 0, "", h.codes.invalid("limit", "The limit must be a whole number of at least 1.")
		}
		most = int64(min(wanted, uint64(most)))
	}
	if cursor, ok := values["cursor"]; ok {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
		if err == nil && len(raw) > cursorTag {
			after = string(raw[cursorTag:])
		}
		if after == "" || !hmac.Equal(raw[:cursorTag], h.deadLetterMAC(id, after)) {
			return 0, "", h.codes.invalid("cursor", "The cursor is not one this host minted for this list.")
		}
	}
	return int(most), after, nil
}

func (h *Host) deadLetterCursor(id, place string) string {
	return base64.RawURLEncoding.EncodeToString(append(h.deadLetterMAC(id, place), place...))
}

func (h *Host) deadLetterMAC(id, place string) []byte {
	mac := hmac.New(sha256.New, h.cursorKey[:])
	_, _ = mac.Write([]byte("dead letters of " + id + " after " + place)) // a hash takes every byte
	return mac.Sum(nil)[:cursorTag]
}
