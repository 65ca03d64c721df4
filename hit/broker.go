package hit

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Names on the broker that edges and aggregators share.
const (
	// Stream is the JetStream stream that is the log of all hits.
	Stream = "HOTBOARD"
	// SubjectHits is the root of the subjects that the stream keeps.
	SubjectHits = "hotboard.hits"
	// RulesSender takes the place of the edge in the subject of a message that puts
	// rules in force: see [HeaderRevision].
	RulesSender = "rules"
	// StreamShards is the key of the stream's metadata for the number of shards. It is
	// chosen once, when the log is created.
	StreamShards = "hotboard-shards"

	// PoisonStream keeps unreadable messages, for a person to inspect.
	PoisonStream  = "HOTBOARD_POISON"
	SubjectPoison = "hotboard.poison"

	// SubjectApplied carries requests with [Waiting] as JSON; the reply is [Applied]
	// as JSON, how far the counts include the edge's batches. One aggregator answers;
	// all of them remember the edge's report.
	SubjectApplied = "hotboard.applied"
	// SubjectQuery carries questions of the reading API, for edges that serve it to
	// visitors. A request is a question in JSON. The reply is the body of the HTTP
	// answer, with its status and validators as headers.
	SubjectQuery = "hotboard.query"
	// SubjectOutcomes carries verdicts on votes from aggregators to all edges, as
	// [Outcomes] in JSON. A lost message changes no count.
	SubjectOutcomes = "hotboard.outcomes"
)

// Headers of a reply that is an error, as in NATS's protocol for services.
const (
	HeaderError     = "Nats-Service-Error"
	HeaderErrorCode = "Nats-Service-Error-Code"
)

// maxErrorBytes bounds the text of an error that travels in a header.
const maxErrorBytes = 512

// ErrorHeader returns the headers of a reply that is an error.
func ErrorHeader(err error) map[string][]string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error())
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorBytes)], "")
	return map[string][]string{HeaderErrorCode: {"503"}, HeaderError: {text}}
}

// ReplyError returns the error that an aggregator replied with, or nil.
func ReplyError(header interface{ Get(name string) string }) error {
	if text := header.Get(HeaderError); text != "" {
		return fmt.Errorf("an aggregator replied: %s", text)
	}
	return nil
}

// Bucket is a key-value bucket with secrets that all edges share: the keys of the
// hashes that replace visitors, users and the keys of limits. Once a secret is
// gone, nobody can trace a hash back.
type Bucket struct {
	Name string
	// TTL is how long the broker keeps a secret: longer than its period and the one
	// before, in which an edge makes it. 0 means for ever.
	TTL time.Duration
}

// Buckets holds the buckets by the name of their secrets' period: calendar.Day,
// calendar.Week, calendar.Month or calendar.All.
var Buckets = map[string]Bucket{
	"day":   {"HOTBOARD_SALTS", 3 * 24 * time.Hour},
	"week":  {"HOTBOARD_SECRETS_WEEK", 16 * 24 * time.Hour},
	"month": {"HOTBOARD_SECRETS_MONTH", 64 * 24 * time.Hour},
	"all":   {"HOTBOARD_SECRETS_LASTING", 0},
}

const (
	// BucketDescription and BucketBytes are the same for all buckets.
	BucketDescription = "Secrets that all Hotboard edges share."
	BucketBytes       = 1 << 20
)

// Outcomes reports verdicts on votes, and quotas without room.
type Outcomes struct {
	Votes []VoteOutcome `json:"votes,omitempty"`
	Used  []UsedQuota   `json:"used,omitempty"`
}

// VoteOutcome is the verdict on a vote whose edge asked for it.
type VoteOutcome struct {
	Confirm uint64 `json:"confirm"` // [Hit.Confirm]
	// Reason is a reason of package ruleset: counted, duplicate, over_quota, closed,
	// unknown_item, …
	Reason string `json:"reason"`
	Limit  string `json:"rule,omitempty"` // the limit, of over_quota
	// Score and Rank are the item's on the list's board of all time after the vote; 0
	// when unknown.
	Score float64 `json:"score,omitempty"`
	Rank  int64   `json:"rank,omitempty"`
}

// UsedQuota is a key whose window counts no more votes.
type UsedQuota struct {
	List   string `json:"list"`
	Limit  string `json:"rule"`
	Window string `json:"window"`
	Start  int64  `json:"start"` // beginning of the window, in seconds since the Unix epoch; 0 for a campaign
	Key    uint64 `json:"key"`
	Count  int64  `json:"count"` // votes counted
}

// RulesBucket is the key-value bucket with the documents and revisions of the
// rules. Package revisions reads and writes it.
const RulesBucket = "HOTBOARD_RULES"

// BehindAfter is how long an accepted hit may wait to be counted before that is a
// fault, at the edge that accepted it and at every aggregator.
const BehindAfter = time.Minute

// Waiting asks how far an edge's batches are applied, and reports the batches that
// the edge does not know to be applied.
type Waiting struct {
	Edge string `json:"edge"`
	// Batches is how many accepted batches the edge does not know to be applied.
	Batches uint64 `json:"batches,omitempty"`
	// Rules names the document of rules that the edge accepts hits under.
	Rules RulesID `json:"rules,omitzero"`
	// OldestMillis is how long the oldest of them has waited.
	OldestMillis int64 `json:"oldest_ms,omitempty"`
	// Refused is why a log that the edge can reach has stored nothing for some
	// seconds, with a remedy. It has at most MaxRefused bytes.
	Refused string `json:"refused,omitempty"`
}

// MaxRefused bounds [Waiting.Refused].
const MaxRefused = 512

// Applied holds, by shard, the highest batch sequence of one edge that is in the
// counts. A shard without one is absent.
type Applied struct {
	Shards map[int]uint64 `json:"shards"`
}
