package referencehost

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"wopcert/bundle/jcs"
)

// readBody reads the whole body, within the advertised limit.
func (h *Host) readBody(r *http.Request) ([]byte, error) {
	limit := h.config.Limits.MaxRequestBodyBytes
	if r.ContentLength > limit {
		return nil, h.codes.bodyTooLarge(limit)
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buffer.ReadFrom(http.MaxBytesReader(nil, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, h.codes.bodyTooLarge(limit)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, h.codes.malformed(err)
	}
	return buffer.Bytes(), nil
}

// decodeBody reads the body as JSON. A body that is not JSON is malformed whatever its media type says; JSON under
// another media type is refused for the type.
func (h *Host) decodeBody(r *http.Request, body []byte) (any, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, h.codes.unsupportedMediaType()
	}
	value, err := jcs.Decode(body)
	if err != nil {
		return nil, h.codes.malformed(err)
	}
	if field := r.Header.Get("Content-Type"); field != "" && !isJSONType(field) {
		return nil, h.codes.unsupportedMediaType()
	}
	return value, nil
}

func isJSONType(field string) bool {
	if field == contentTypeJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(field)
	return err == nil && media == contentTypeJSON
}
