package caddymodule

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/caddymodule/internal/currentlog"
	"github.com/hotboard/hotboard/caddymodule/outbox"
	"github.com/hotboard/hotboard/hit"
)

// defaultShards is the default number of shards of an aggregator with Redis.
const defaultShards = 16

// natsConnections holds the connections to NATS servers, by their settings, so
// that a reload keeps using an existing connection.
var natsConnections = caddy.NewUsagePool()

// NATSBroker sends hits to a NATS server or cluster with JetStream. The
// aggregators read from there.
//
// Every value may be a placeholder such as `{env.NATS_TOKEN}`, so that secrets
// can stay out of the configuration.
type NATSBroker struct {
	// The servers, for example `nats://nats-1:4222` or `tls://nats.example.com`.
	// The edge discovers the other members of a cluster.
	URLs []string `json:"urls,omitempty"`

	// A NATS credentials file (a JWT with its key).
	CredentialsFile string `json:"credentials_file,omitempty"`

	// A token that the server expects.
	Token string `json:"token,omitempty"`

	// A user name that the server expects, with its password.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`

	// The number of shards of the log. It must equal the aggregator's; the edge
	// refuses to publish to a log with another number. Default: 16.
	Shards int `json:"shards,omitempty"`

	key string // key in natsConnections; empty unless open
}

// CaddyModule returns the Caddy module information.
func (*NATSBroker) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  brokerNamespace + ".nats",
		New: func() caddy.Module { return new(NATSBroker) },
	}
}

// Provision fills in placeholders and defaults. It connects to nothing.
func (b *NATSBroker) Provision(caddy.Context) error {
	repl := caddy.NewReplacer()
	fill := func(name string, s *string) error {
		v, err := repl.ReplaceOrErr(*s, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*s = v
		return nil
	}
	var errs []error
	for i := range b.URLs {
		errs = append(errs, fill("urls", &b.URLs[i]))
	}
	errs = append(errs,
		fill("credentials_file", &b.CredentialsFile),
		fill("token", &b.Token),
		fill("user", &b.User),
		fill("password", &b.Password))
	if b.Shards == 0 {
		b.Shards = defaultShards
	}
	return errors.Join(errs...)
}

// Validate reports mistakes in the settings.
func (b *NATSBroker) Validate() error {
	var errs []error
	if len(b.URLs) == 0 {
		errs = append(errs, errors.New("urls: missing: name at least one NATS server, for example nats://127.0.0.1:4222"))
	}
	for _, s := range b.URLs {
		u, err := url.Parse(s)
		if err != nil {
			// the error would repeat the URL, which may hold a password
			errs = append(errs, errors.New("urls: one of them is not a URL; write for example nats://127.0.0.1:4222"))
			continue
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			errs = append(errs, fmt.Errorf("urls: %s does not begin with nats://, tls://, ws:// or wss://", u.Redacted()))
		}
	}
	ways := 0
	for _, s := range []string{b.CredentialsFile, b.Token, b.User} {
		if s != "" {
			ways++
		}
	}
	if ways > 1 {
		errs = append(errs, errors.New("use one of credentials_file, token and user"))
	}
	if b.Password != "" && b.User == "" {
		errs = append(errs, errors.New("password: missing user"))
	}
	if b.Shards < 1 || b.Shards > hit.MaxShards {
		errs = append(errs, fmt.Errorf("shards: %d is not in 1 to %d", b.Shards, hit.MaxShards))
	}
	return errors.Join(errs...)
}

// ShardCount returns the number of shards of the log.
func (b *NATSBroker) ShardCount() int { return b.Shards }

// Open connects, in the background and without a time limit if no server answers
// now.
func (b *NATSBroker) Open(BrokerOptions) (*nats.Conn, error) {
	key := strings.Join(append([]string{b.CredentialsFile, b.Token, b.User, b.Password}, b.URLs...), "\x00")
	conn, _, err := natsConnections.LoadOrNew(key, func() (caddy.Destructor, error) {
		// The logger outlives this configuration, because the connection may.
		nc, err := outbox.Connect(strings.Join(b.URLs, ","), currentlog.Logger("hotboard.broker.nats"), b.options()...)
		if err != nil {
			return nil, err
		}
		return natsConnection{nc}, nil
	})
	if err != nil {
		return nil, err
	}
	b.key = key
	return conn.(natsConnection).Conn, nil
}

// Close releases the connection.
func (b *NATSBroker) Close() error {
	if b.key == "" {
		return nil
	}
	_, err := natsConnections.Delete(b.key)
	b.key = ""
	return err
}

// options returns the options that the outbox does not set.
func (b *NATSBroker) options() []nats.Option {
	// By default, two refused log-ins end a connection permanently, but the
	// operator may correct the credentials.
	opts := []nats.Option{nats.IgnoreAuthErrorAbort()}
	switch {
	case b.CredentialsFile != "":
		opts = append(opts, nats.UserCredentials(b.CredentialsFile))
	case b.Token != "":
		opts = append(opts, nats.Token(b.Token))
	case b.User != "":
		opts = append(opts, nats.UserInfo(b.User, b.Password))
	}
	return opts
}

type natsConnection struct{ *nats.Conn }

// Destruct closes the connection. Nothing is pending: the outbox that used it was
// closed first.
func (c natsConnection) Destruct() error {
	c.Close()
	return nil
}

// UnmarshalCaddyfile reads
//
//	nats <url...> {
//		credentials_file <file>
//		token            <token>
//		user             <name> <password>
//		shards           <count>
//	}
func (b *NATSBroker) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	b.URLs = d.RemainingArgs()
	if len(b.URLs) == 0 {
		return d.Err("nats: name at least one server, for example: nats nats://127.0.0.1:4222")
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch option := d.Val(); option {
		case "credentials_file":
			if !d.AllArgs(&b.CredentialsFile) {
				return d.ArgErr()
			}
		case "token":
			if !d.AllArgs(&b.Token) {
				return d.ArgErr()
			}
		case "user":
			if !d.AllArgs(&b.User, &b.Password) {
				return d.ArgErr()
			}
		case "shards":
			var s string
			if !d.AllArgs(&s) {
				return d.ArgErr()
			}
			n, err := strconv.Atoi(s)
			if err != nil {
				return d.Errf("shards: %q is not a number", s)
			}
			b.Shards = n
		default:
			return d.Errf("unknown option %q; options of nats: credentials_file, token, user and shards", option)
		}
	}
	return nil
}

var (
	_ Broker                = (*NATSBroker)(nil)
	_ caddy.Provisioner     = (*NATSBroker)(nil)
	_ caddy.Validator       = (*NATSBroker)(nil)
	_ caddyfile.Unmarshaler = (*NATSBroker)(nil)
)
