package ruleset

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time written as a string, in Go's syntax plus d for
// days of 24 hours and w for weeks of 7 days: "10m", "36h", "1.5d", "1w2d". A
// bare number is an error, because its unit would be a guess.
type Duration time.Duration

var errDuration = errors.New(`want a number and a unit, such as "90s", "10m", "36h", "7d" or "1w2d"`)

// units of a duration, in nanoseconds.
var units = map[string]float64{
	"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9,
	"m": 60e9, "h": 3600e9, "d": 24 * 3600e9, "w": 7 * 24 * 3600e9,
}

// ParseDuration parses a [Duration].
func ParseDuration(s string) (Duration, error) {
	// Go's own parser comes first: its fractions are exact.
	if d, err := time.ParseDuration(s); err == nil && s != "0" {
		return Duration(d), nil
	}
	rest, sign := s, 1.0
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		if rest[0] == '-' {
			sign = -1
		}
		rest = rest[1:]
	}
	if rest == "" {
		return 0, fmt.Errorf("duration %.80q: %w", s, errDuration)
	}
	var sum float64
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if n <= 0 {
			return 0, fmt.Errorf("duration %.80q: %w", s, errDuration)
		}
		num, err := strconv.ParseFloat(rest[:n], 64)
		if err != nil {
			return 0, fmt.Errorf("duration %.80q: %w", s, errDuration)
		}
		rest = rest[n:]
		n = strings.IndexAny(rest, ".0123456789")
		if n < 0 {
			n = len(rest)
		}
		unit, ok := units[rest[:n]]
		if !ok {
			return 0, fmt.Errorf("duration %.80q: unknown unit %.20q: %w", s, rest[:n], errDuration)
		}
		rest = rest[n:]
		sum += num * unit
	}
	if sum = math.Round(sign * sum); math.Abs(sum) >= math.MaxInt64 {
		return 0, fmt.Errorf("duration %.80q is longer than 292 years", s)
	}
	return Duration(sum), nil
}

// String formats d so that [ParseDuration] returns the same value: "10m", "36h",
// "7d".
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	const day = Duration(24 * time.Hour)
	if d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := time.Duration(d).String()
	// Go formats these as 10m0s and 36h0m0s.
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It accepts a string only.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("duration %.80s is not a string: %w", data, errDuration)
	}
	return d.UnmarshalText([]byte(s))
}
