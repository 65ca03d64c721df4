package ruleset

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	tests := []struct {
		text string
		want time.Duration
		back string // what String makes of it
	}{
		{"10m", 10 * time.Minute, "10m"},
		{"36h", 36 * time.Hour, "36h"},
		{"24h", day, "1d"},
		{"7d", 7 * day, "7d"},
		{"1w", 7 * day, "7d"},
		{"1w2d", 9 * day, "9d"},
		{"1.5d", 36 * time.Hour, "36h"},
		{"1d12h30m", 36*time.Hour + 30*time.Minute, "36h30m"},
		{"90s", 90 * time.Second, "1m30s"},
		{"1h0m5s", time.Hour + 5*time.Second, "1h0m5s"},
		{"250ms", 250 * time.Millisecond, "250ms"},
		{"1d1ns", day + 1, "24h0m0.000000001s"},
		{"1µs", time.Microsecond, "1µs"},
		{"-1d", -day, "-1d"},
		{"+2h", 2 * time.Hour, "2h"},
		{"0s", 0, "0s"},
		{".5h", 30 * time.Minute, "30m"},
	}
	for _, tt := range tests {
		got, err := ParseDuration(tt.text)
		if err != nil || time.Duration(got) != tt.want {
			t.Errorf("%s: %v, %v; want %v", tt.text, time.Duration(got), err, tt.want)
		}
		if got.String() != tt.back {
			t.Errorf("%s: String %q, want %q", tt.text, got, tt.back)
		}
	}
}

func TestParseDurationErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":          "want a number and a unit",
		"10":        "want a number and a unit",
		"0":         "want a number and a unit",
		"d":         "want a number and a unit",
		"-":         "want a number and a unit",
		"10 m":      `unknown unit " m"`,
		"1y":        `unknown unit "y"`,
		"1month":    "unknown unit",
		"1.2.3d":    "want a number and a unit",
		".d":        "want a number and a unit",
		"1d-1h":     "unknown unit",
		"300000d":   "longer than 292 years",
		"-9999999w": "longer than 292 years",
	} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestDurationJSON(t *testing.T) {
	t.Parallel()
	var v struct {
		D Duration `json:"d,omitempty"`
	}
	if err := json.Unmarshal([]byte(`{"d":"1w"}`), &v); err != nil || v.D != Duration(7*24*time.Hour) {
		t.Errorf("%v, %v", v, err)
	}
	if out, err := json.Marshal(v); err != nil || string(out) != `{"d":"7d"}` {
		t.Errorf("%s, %v", out, err)
	}
	for _, bad := range []string{`{"d":600000000000}`, `{"d":true}`, `{"d":"10"}`} {
		if err := json.Unmarshal([]byte(bad), &v); err == nil || !strings.Contains(err.Error(), "a number and a unit") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, s := range []string{"10m", "1w2d", "1.5d", "-36h", "1d1ns", "µ", "9999999999d", "1e5d", "+.5w", "1h1d", "0d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if std, stdErr := time.ParseDuration(s); stdErr == nil && s != "0" && s != "+0" && s != "-0" && (err != nil || time.Duration(d) != std) {
			t.Fatalf("%q: %v, %v; time.ParseDuration returns %v", s, d, err, std)
		}
		if err != nil {
			return
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is %d, written %q, which is %d, %v", s, d, d, again, err)
		}
	})
}
