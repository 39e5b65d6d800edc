package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// Bounds on what a host can make the suite read or wait for.
const (
	MaxBody       = 8 << 20  // bytes of one response body
	MaxStream     = 16 << 20 // bytes of one event stream
	MaxFrames     = 10_000   // frames, and comments, of one event stream
	headerTimeout = 15 * time.Second
	maxHeaderSize = 256 << 10
)

// Request is one request to the host. Path is below the host's base URL and
// already escaped; RawBody wins over Body, which is sent as JSON.
type Request struct {
	Method  string
	Path    string
	Query   url.Values
	Header  http.Header
	Body    any
	RawBody []byte
	As      Identity
	Version string // value of OpenWOP-Version, "2" when empty; NoVersion sends none
	Timeout time.Duration
}

// NoVersion as Request.Version leaves the OpenWOP-Version header out.
const NoVersion = "-"

// Response is what came back. A transport failure is a Response too, with Err
// set: a host that hangs up has answered wrongly, not stopped the suite.
type Response struct {
	Request   string // method and URL, for reports
	Status    int
	Header    http.Header
	Body      []byte
	Truncated bool // the body exceeded MaxBody and was cut
	Err       error
	Elapsed   time.Duration

	exchange int
	corpus   *corpus.Corpus
	url      *url.URL
	decoded  any
	parseErr error
	parsed   bool
}

// client is the one HTTP client of a run.
type client struct {
	base        *url.URL
	credentials Credentials
	plain       *http.Client
	stream      *http.Client
}

// newClient builds the client. Compression is off and redirects are not
// followed, because both would hide what the host sent; streams use a fresh
// connection each, so that who closed it can be told.
func newClient(base *url.URL, credentials Credentials, tlsConfig *tls.Config) *client {
	transport := func(keepAlive bool) *http.Client {
		return &http.Client{
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
				TLSClientConfig:        tlsConfig,
				TLSHandshakeTimeout:    10 * time.Second,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true,
				DisableKeepAlives:      !keepAlive,
				MaxIdleConnsPerHost:    64,
				IdleConnTimeout:        30 * time.Second,
				ResponseHeaderTimeout:  90 * time.Second,
				MaxResponseHeaderBytes: maxHeaderSize,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &client{base: base, credentials: credentials, plain: transport(true), stream: transport(false)}
}

// errSwitched is what a 101 answer comes to. Its body would be the connection
// itself, which no deadline of the request reaches.
var errSwitched = errors.New("the host answered 101 and left HTTP")

// do sends a request. An answer that ends HTTP on the connection is a failure.
func (c *client) do(h *http.Client, req *http.Request) (*http.Response, error) {
	res, err := h.Do(req)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close()
		return nil, errSwitched
	}
	return res, err
}

func (c *client) close() {
	c.plain.CloseIdleConnections()
	c.stream.CloseIdleConnections()
}

// build makes the HTTP request and returns its body bytes for the capture.
func (c *client) build(ctx context.Context, r Request) (*http.Request, []byte, error) {
	u, err := c.resolve(r.Path)
	if err != nil {
		return nil, nil, err
	}
	if len(r.Query) > 0 {
		u.RawQuery = r.Query.Encode()
	}
	body := r.RawBody
	if body == nil && r.Body != nil {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r.Body); err != nil {
			return nil, nil, fmt.Errorf("encode request body: %w", err)
		}
		body = bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if body == nil {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "wopcert")
	switch r.Version {
	case "":
		req.Header.Set("OpenWOP-Version", "2")
	case NoVersion:
	default:
		req.Header.Set("OpenWOP-Version", r.Version)
	}
	if key := c.credentials.key(r.As); key != "" && r.As != Anonymous {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range r.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	return req, body, nil
}

// resolve turns a path, or an absolute URL on the host's own origin, into a
// URL. Another origin is refused: credentials never leave the host under test.
func (c *client) resolve(path string) (*url.URL, error) {
	if strings.Contains(path, "://") {
		u, err := url.Parse(path)
		if err != nil {
			return nil, fmt.Errorf("link %q: %w", path, err)
		}
		if !sameOrigin(u, c.base) {
			return nil, fmt.Errorf("link %q leaves the origin %s", path, c.base.Host)
		}
		return u, nil
	}
	u, err := url.Parse(strings.TrimSuffix(c.base.String(), "/") + "/" + strings.TrimPrefix(path, "/"))
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	return u, nil
}

func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(originHost(a), originHost(b))
}

// originHost is host:port with the scheme's default port made explicit.
func originHost(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// readBounded reads at most limit bytes and reports whether more followed.
func readBounded(r io.Reader, limit int64) (data []byte, truncated bool, err error) {
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], true, err
	}
	return data, false, err
}

// JSON decodes the body as I-JSON. It returns nil for a body that is not.
func (r *Response) JSON() any {
	if !r.parsed {
		r.parsed = true
		switch {
		case r.Err != nil:
			r.parseErr = r.Err
		case r.Truncated:
			r.parseErr = fmt.Errorf("body exceeds %d bytes", MaxBody)
		default:
			r.decoded, r.parseErr = jcs.Decode(r.Body)
		}
	}
	return r.decoded
}

// Get walks the decoded body by member name and returns nil where it ends.
func (r *Response) Get(path ...string) any { return Get(r.JSON(), path...) }

// Text is Get for a string member, "" when absent or not a string.
func (r *Response) Text(path ...string) string {
	s, _ := r.Get(path...).(string)
	return s
}

// Get walks a decoded JSON value by member name.
func Get(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// describe is the response in one line for a report.
func (r *Response) describe() string {
	if r.Err != nil {
		return "no response: " + transportReason(r.Err)
	}
	s := fmt.Sprintf("%d", r.Status)
	if code := r.Text("error"); code != "" {
		s += " " + code
	} else if ct := r.Header.Get("Content-Type"); ct != "" {
		s += " " + ct
	}
	return s
}

// transportReason says in stable words why no response came.
func transportReason(err error) string {
	var netErr net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "the host did not answer in time"
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		return urlErr.Err.Error()
	}
	return err.Error()
}

// Is checks the status.
func (r *Response) Is(status int) Check {
	return That(r.Err == nil && r.Status == status, fmt.Sprintf("status %d", status), "%s", r.describe()).At(r)
}

// Refuses checks that the response is the error envelope with exactly this
// registered code under its registered status.
func (r *Response) Refuses(code string) Check {
	row, ok := r.corpus.Error(code)
	if !ok {
		return That(false, "a registered error code", "the suite asks for %q, which is not registered", code).At(r)
	}
	expected := fmt.Sprintf("%d %s in the error envelope", row.HTTPStatus, code)
	if r.Err != nil || r.Status != row.HTTPStatus || r.Text("error") != code {
		return That(false, expected, "%s", r.describe()).At(r)
	}
	if err := r.corpus.ValidateValue("error-envelope", r.JSON()); err != nil {
		return That(false, expected, "%s, but the envelope is invalid: %v", r.describe(), err).At(r)
	}
	return That(true, expected, "%s", r.describe()).At(r)
}

// Valid checks the body against a schema of the corpus.
func (r *Response) Valid(schema string) Check {
	expected := "a body valid against " + schema
	v := r.JSON()
	if r.parseErr != nil {
		return That(false, expected, "%s with a body that is not I-JSON: %v", r.describe(), r.parseErr).At(r)
	}
	if err := r.corpus.ValidateValue(schema, v); err != nil {
		return That(false, expected, "%v", err).At(r)
	}
	return That(true, expected, "a valid body").At(r)
}

// HeaderIs checks one header's exact value.
func (r *Response) HeaderIs(name, want string) Check {
	got := r.Header.Get(name)
	return That(r.Err == nil && got == want, fmt.Sprintf("%s: %s", name, want), "%s", headerText(r, name)).At(r)
}

func headerText(r *Response, name string) string {
	if r.Err != nil {
		return r.describe()
	}
	if v, ok := r.Header[http.CanonicalHeaderKey(name)]; ok {
		return name + ": " + strings.Join(v, ", ")
	}
	return "no " + name + " header"
}

// URL is the address the request went to.
func (r *Response) URL() *url.URL { return r.url }
