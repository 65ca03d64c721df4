// Package accesslog reads access logs in the combined and common formats, which
// Apache, nginx and many others write, and in Caddy's JSON format.
package accesslog

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Entry is one request of an access log.
type Entry struct {
	Time   time.Time  // UTC
	IP     netip.Addr // of the client, as logged by the server
	Method string
	// Path is the decoded path of the URL, as net/http has it in URL.Path.
	Path   string
	Status int
	// UserAgent is empty if the request had none, and if the log does not contain
	// User-Agents: see KnowsUserAgent.
	UserAgent string
	// KnowsUserAgent is false for a log without User-Agents, such as the common
	// format. Such a log does not reveal bots.
	KnowsUserAgent bool
	// Header and ResponseHeader are the headers in the log, with canonical keys,
	// or nil. Only Caddy's format has them.
	Header         http.Header
	ResponseHeader http.Header
}

// Errors of Parse. Errors never quote the line: it holds personal data.
var (
	// ErrFormat reports a line in an unknown format.
	ErrFormat = errors.New("the line is not in combined, common or Caddy's JSON format")
	// ErrNotAccess reports a line of Caddy's log about something other than a
	// finished request, such as an error or a startup message.
	ErrNotAccess = errors.New("the line is not from the access log")
)

// Parse parses one line, without its line end, in any of the formats.
func Parse(line string) (Entry, error) {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "{") {
		return parseCaddy(line)
	}
	return parseCombined(line)
}

// pathOf returns the decoded path of the URL in a request line.
func pathOf(method, uri string) (string, error) {
	if method == http.MethodConnect {
		return "", nil // its target is a host
	}
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return "", errors.New("the URL of the request is malformed")
	}
	return u.Path, nil
}

// inRange returns t in UTC, unless no hit can have it.
func inRange(t time.Time) (time.Time, error) {
	if t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, errors.New("the time is not in the years 1970 to 9999")
	}
	return t.UTC(), nil
}
