// Package revisions keeps the rules of an installation in the broker: canonical
// documents, each under its name, and the numbered revisions that put them in
// force. Edges and aggregators share it.
package revisions

import (
	"errors"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/hit"
)

// Authority is the kind of place that decides the rules of an installation.
type Authority string

// The authorities.
const (
	Caddyfile  Authority = "caddyfile"  // the configuration of the edges
	Aggregator Authority = "aggregator" // the configuration of the aggregators
)

// ParseAuthority returns the authority with a name.
func ParseAuthority(name string) (Authority, error) {
	switch a := Authority(name); a {
	case Caddyfile, Aggregator:
		return a, nil
	}
	return "", fmt.Errorf("%q is not an authority: %s or %s", name, Caddyfile, Aggregator)
}

// Revision is one entry in the history of an installation's rules. The one with
// the highest number is the current revision.
type Revision struct {
	Number uint64 `json:"number"` // 1, 2, 3, …
	// Rules names the document that the revision puts in force.
	Rules hit.RulesID `json:"rules"`
	At    time.Time   `json:"at"`
	// Authority decides the rules from this revision on.
	Authority Authority `json:"authority"`
	By        string    `json:"by,omitempty"`   // who added the revision: a host or a user
	From      string    `json:"from,omitempty"` // where the rules come from, such as a file
	// BotsFile is the file of bots of the configuration, on the machine of By. A
	// document leaves it out.
	BotsFile string `json:"bots_file,omitempty"`
}

// String describes a revision for people, such as "revision 3 (1a2b3c4d, caddyfile,
// by www-1)".
func (r Revision) String() string {
	s := fmt.Sprintf("revision %d (%s, %s", r.Number, r.Rules.Short(), r.Authority)
	if r.By != "" {
		s += ", by " + r.By
	}
	return s + ")"
}

func (r Revision) same(o Revision) bool {
	return r.Number == o.Number && r.Rules == o.Rules && r.Authority == o.Authority && r.At.Equal(o.At)
}

// Source is where the rules of a process come from.
type Source struct {
	Authority Authority
	By, From  string // as in [Revision]
}

var (
	// ErrNoRevision means that nobody has added a revision yet.
	ErrNoRevision = errors.New("the broker has no rules yet")
	// ErrNoDocument means that the broker lacks a document, or has damaged it.
	ErrNoDocument = errors.New("the broker lacks the document of these rules")
	// ErrConflict means that another process added a revision at the same time.
	ErrConflict = errors.New("another process has changed the rules")
	// ErrNoConnection means that there is no connection to the broker now.
	ErrNoConnection = errors.New("not connected to NATS")
)
