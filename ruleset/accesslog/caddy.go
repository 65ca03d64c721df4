package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// caddyLine holds the fields we use of a line that Caddy's JSON encoder writes:
// https://caddyserver.com/docs/logging#structured-logs
type caddyLine struct {
	Logger  string          `json:"logger"`
	TS      json.RawMessage `json:"ts"`
	Request *struct {
		RemoteIP string      `json:"remote_ip"`
		ClientIP string      `json:"client_ip"` // since Caddy 2.7, behind trusted proxies
		Method   string      `json:"method"`
		URI      string      `json:"uri"`
		Headers  http.Header `json:"headers"`
	} `json:"request"`
	Status          *int        `json:"status"`
	ResponseHeaders http.Header `json:"resp_headers"`
}

func parseCaddy(line string) (Entry, error) {
	var c caddyLine
	if err := json.Unmarshal([]byte(line), &c); err != nil {
		return Entry{}, errors.New("invalid JSON in a line of Caddy's access log")
	}
	// The error log repeats the requests that failed.
	if c.Logger != "" && c.Logger != "http.log.access" && !strings.HasPrefix(c.Logger, "http.log.access.") {
		return Entry{}, ErrNotAccess
	}
	if c.Request == nil || c.Status == nil {
		return Entry{}, ErrNotAccess
	}
	e := Entry{
		Method:         c.Request.Method,
		Status:         *c.Status,
		Header:         canonical(c.Request.Headers),
		ResponseHeader: canonical(c.ResponseHeaders),
	}
	var err error
	if e.Time, err = parseTS(c.TS); err != nil {
		return Entry{}, err
	}
	ip := c.Request.ClientIP
	if ip == "" {
		ip = c.Request.RemoteIP
	}
	if e.IP, err = netip.ParseAddr(ip); err != nil {
		return Entry{}, errors.New("request.client_ip is not an IP address")
	}
	if e.Path, err = pathOf(e.Method, c.Request.URI); err != nil {
		return Entry{}, err
	}
	if e.Header != nil {
		e.KnowsUserAgent = true
		e.UserAgent = e.Header.Get("User-Agent")
	}
	return e, nil
}

func canonical(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	c := make(http.Header, len(h))
	for k, v := range h {
		k = http.CanonicalHeaderKey(k)
		c[k] = append(c[k], v...)
	}
	return c
}

// timeLayouts are the layouts of Caddy's time_format option, without the numeric
// ones. Layouts without an offset are in UTC unless time_local is set.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999Z0700", // iso8601
	"2006/01/02 15:04:05.999999999",      // wall, wall_milli, wall_nano
	combinedTime,                         // common_log
}

// parseTS reads Caddy's time stamp: a number of seconds (the default),
// milliseconds or nanoseconds since the Unix epoch, or text.
func parseTS(raw json.RawMessage) (time.Time, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for _, layout := range timeLayouts {
			if t, err := time.Parse(layout, text); err == nil {
				return inRange(t)
			}
		}
		return time.Time{}, fmt.Errorf("ts %.40q is not in a time format of Caddy", text)
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return time.Time{}, errors.New("ts is missing")
	}
	// The size of the number reveals its unit: 1e11 seconds are in the year 5138,
	// 1e11 milliseconds in 1973.
	switch abs := math.Abs(v); {
	case abs >= 1e14: // nanoseconds
		v /= 1e9
	case abs >= 1e11: // milliseconds
		v /= 1e3
	}
	// A float64 of seconds is precise to half a microsecond.
	return inRange(time.UnixMicro(int64(math.Round(v * 1e6))))
}
