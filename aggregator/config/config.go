// Package config is the aggregator's configuration file. It is strict: it reports
// every unknown key, wrong type, missing environment variable and invalid rule at
// once, each with its line.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hotboard/hotboard/aggregator/api"
	"github.com/hotboard/hotboard/aggregator/ingest"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// DefaultListen is the default address of the HTTP listener.
const DefaultListen = "127.0.0.1:7070"

// Config is the content of the file. Text may name environment variables as
// ${NAME}, which keeps secrets out of the file.
type Config struct {
	// Listen is the address of the HTTP listener, which is for operators and
	// programs. Default: 127.0.0.1:7070.
	Listen Text `json:"listen"`
	// ReloadToken is the bearer token for POST /-/reload and POST /-/acknowledge.
	// Default: none; only programs on the same machine may use them.
	ReloadToken Text `json:"reload_token"`
	// Slice is the time slice of answers, up to 2 minutes. Default: 1s.
	Slice ruleset.Duration `json:"slice"`
	// Shards is the number of shards of the log. It is chosen once, while log and
	// store are empty. Default: 16 with Redis, 1 with SQLite.
	Shards int `json:"shards"`

	NATS NATS `json:"nats"`
	// Redis and SQLite are the stores; exactly one is required.
	Redis  *Redis  `json:"redis"`
	SQLite *SQLite `json:"sqlite"`
	Log    Log     `json:"log"`

	// RulesFile is a file with the rules, relative to the configuration file.
	// RulesConfig is the rules themselves. With neither the aggregator follows the
	// current revision.
	RulesFile   Text            `json:"rules_file"`
	RulesConfig *ruleset.Config `json:"rules"`

	// Rules are the compiled rules of either, or nil.
	Rules *ruleset.Rules
}

// NATS configures the connection to the broker and the log.
type NATS struct {
	// URLs of the servers. Default: nats://127.0.0.1:4222.
	URLs []Text `json:"urls"`
	// One way to sign in: a token, a user with a password, or a credentials file.
	Token           Text `json:"token"`
	User            Text `json:"user"`
	Password        Text `json:"password"`
	CredentialsFile Text `json:"credentials_file"`
	// MaxAge is how long the log keeps a hit. Default: 72h.
	MaxAge ruleset.Duration `json:"max_age"`
	// MaxBytes is the largest size of the log. Default: 4GiB.
	MaxBytes Size `json:"max_bytes"`
	// Replicas is the number of servers in a cluster that keep the log. Default: 1.
	Replicas int `json:"replicas"`
}

// Redis configures the Redis store.
type Redis struct {
	// URL is redis://user:password@host:6379/0, rediss:// for TLS, unix:// for a
	// socket; ?master_name= for Sentinels, redis+cluster:// for a cluster.
	URL Text `json:"url"`
	// Prefix begins every key. Default: hotboard.
	Prefix Text `json:"prefix"`
}

// SQLite configures the SQLite store.
type SQLite struct {
	// Path is the database file, relative to the configuration file.
	Path Text `json:"path"`
}

// Log configures the aggregator's logs on standard error.
type Log struct {
	Format Text `json:"format"` // text (the default) or json
	Level  Text `json:"level"`  // debug, info (the default), warn or error
}

// Text is a string in which ${NAME} stands for an environment variable.
type Text string

var variable = regexp.MustCompile(`\$\{([^{}]*)\}`)

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Text) UnmarshalText(text []byte) error {
	var missing []string
	*t = Text(variable.ReplaceAllStringFunc(string(text), func(s string) string {
		name := s[2 : len(s)-1]
		v, ok := os.LookupEnv(name)
		if !ok {
			missing = append(missing, name)
		}
		return v
	}))
	if len(missing) > 0 {
		return fmt.Errorf("the environment lacks %s", strings.Join(missing, ", "))
	}
	return nil
}

// Size is a number of bytes, written as 4GiB or 500MB.
type Size int64

var units = map[string]int64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	number := strings.TrimRightFunc(string(text), func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	unit, ok := units[strings.ToUpper(strings.TrimSpace(string(text[len(number):])))]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok || n < 0 || n*float64(unit) >= 1<<62 {
		return fmt.Errorf("%.40q is not a size such as 4GiB or 500MB", text)
	}
	*s = Size(n * float64(unit))
	return nil
}

// Load reads a configuration file with its rules. The error joins a
// [*configfile.Problem] for every mistake.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a configuration from the content of a file.
func Parse(path string, data []byte) (*Config, error) {
	doc, err := configfile.ParseYAML(path, data)
	if err != nil {
		return nil, err
	}
	var c Config
	err = doc.Decode("", &c, func() error { return c.validate() })
	c.setDefaults(filepath.Dir(path))
	if c.RulesFile != "" && c.RulesConfig == nil {
		var bad error
		if c.Rules, bad = LoadRules(string(c.RulesFile)); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// LoadRules reads a file with rules only.
func LoadRules(path string) (*ruleset.Rules, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	r, err := ruleset.ParseYAML(path, data)
	if err != nil {
		return nil, err
	}
	botsUnder(filepath.Dir(path), r)
	return r, nil
}

// botsUnder resolves the path of the file of bots against the directory of the file
// that names it.
func botsUnder(dir string, r *ruleset.Rules) {
	if r.Bots != nil {
		r.Bots.File = string(under(dir, Text(r.Bots.File)))
	}
}

func (c *Config) setDefaults(dir string) {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if len(c.NATS.URLs) == 0 {
		c.NATS.URLs = []Text{"nats://127.0.0.1:4222"}
	}
	for _, p := range []*Text{&c.RulesFile, &c.NATS.CredentialsFile} {
		*p = under(dir, *p)
	}
	if c.SQLite != nil {
		c.SQLite.Path = under(dir, c.SQLite.Path)
	}
	if c.Rules != nil {
		botsUnder(dir, c.Rules)
	}
}

func under(dir string, path Text) Text {
	if path == "" || filepath.IsAbs(string(path)) {
		return path
	}
	return Text(filepath.Join(dir, string(path)))
}

// validate returns the problems that the types do not catch.
func (c *Config) validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, &configfile.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if c.Listen != "" {
		if _, _, err := net.SplitHostPort(string(c.Listen)); err != nil {
			bad("listen", "%q is not an address such as 127.0.0.1:7070", string(c.Listen))
		}
	}
	if d := time.Duration(c.Slice); d < 0 || d > api.MaxSlice {
		bad("slice", "%s is not between 1ms and %s", c.Slice, ruleset.Duration(api.MaxSlice))
	}
	if c.Shards < 0 || c.Shards > hit.MaxShards {
		bad("shards", "%d is not between 1 and %d", c.Shards, hit.MaxShards)
	}
	c.NATS.validate(bad)
	switch {
	case c.Redis == nil && c.SQLite == nil:
		bad("", "no store: set redis (url: redis://127.0.0.1:6379) or sqlite (path: counts.db)")
	case c.Redis != nil && c.SQLite != nil:
		bad("sqlite", "two stores: remove redis or sqlite")
	case c.Redis != nil && c.Redis.URL == "":
		bad("redis.url", "missing; for example redis://127.0.0.1:6379")
	case c.SQLite != nil && c.SQLite.Path == "":
		bad("sqlite.path", "missing; for example counts.db")
	}
	if f := c.Log.Format; f != "" && f != "text" && f != "json" {
		bad("log.format", "%q is neither text nor json", string(f))
	}
	if _, err := c.Log.level(); err != nil {
		bad("log.level", "%q is none of debug, info, warn and error", string(c.Log.Level))
	}
	switch {
	case c.RulesConfig != nil && c.RulesFile != "":
		bad("rules_file", "two sets of rules: remove rules_file or rules")
	case c.RulesConfig != nil:
		var err error
		c.Rules, err = ruleset.Compile(*c.RulesConfig)
		errs = append(errs, configfile.Under("rules", err))
		if len(c.RulesConfig.Lists) == 0 {
			bad("rules.lists", "no lists: nothing would be counted")
		}
	}
	return errors.Join(errs...)
}

func (n *NATS) validate(bad func(path, format string, args ...any)) {
	for i, u := range n.URLs {
		// The parser's error would repeat the URL, which may hold a password.
		if p, err := url.Parse(string(u)); err != nil || p.Host == "" {
			bad(fmt.Sprintf("nats.urls[%d]", i), "not a URL such as nats://127.0.0.1:4222 or tls://nats.example.com")
		}
	}
	ways := 0
	for _, given := range []bool{n.Token != "", n.User != "", n.CredentialsFile != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		bad("nats", "several ways to sign in: use one of token, or user and password, or credentials_file")
	}
	if n.Password != "" && n.User == "" {
		bad("nats.password", "missing user for the password")
	}
	if d := time.Duration(n.MaxAge); d < 0 || d > 0 && d < time.Hour {
		bad("nats.max_age", "%s is less than an hour: the log could delete hits before they are counted", n.MaxAge)
	}
	if n.MaxBytes != 0 && n.MaxBytes < 16<<20 {
		bad("nats.max_bytes", "less than 16MiB")
	}
	if n.Replicas < 0 || n.Replicas > 5 {
		bad("nats.replicas", "%d is not between 1 and 5", n.Replicas)
	}
}

// LogOptions returns the options of the log on the broker.
func (n *NATS) LogOptions() ingest.LogOptions {
	return ingest.LogOptions{MaxAge: time.Duration(n.MaxAge), MaxBytes: int64(n.MaxBytes), Replicas: n.Replicas}
}

func (l Log) level() (level slog.Level, err error) {
	if l.Level == "" {
		return slog.LevelInfo, nil
	}
	err = level.UnmarshalText([]byte(l.Level))
	return level, err
}

// Logger returns the logger that the configuration describes, on standard error.
func (l Log) Logger() *slog.Logger {
	level, err := l.level()
	if err != nil {
		level = slog.LevelInfo // Parse has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}
