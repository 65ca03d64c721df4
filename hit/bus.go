package hit

import "time"

// Names on the bus that the edge and the aggregator share.
const (
	// Stream is the JetStream stream that is the log of all hits.
	Stream = "HOTBOARD"
	// SubjectHits is the root of the subjects the stream keeps.
	SubjectHits = "hotboard.hits"
	// StreamShards is the key of the stream's metadata that says how many shards
	// the log was created with. It is chosen once.
	StreamShards = "hotboard-shards"

	// PoisonStream keeps the messages that could not be read, for a person to look at.
	PoisonStream  = "HOTBOARD_POISON"
	SubjectPoison = "hotboard.poison"

	// SubjectApplied answers a request whose body is [Waiting] with [Applied], both
	// as JSON: how far the counts include an edge's batches. One aggregator answers;
	// all of them remember what the edge waits for.
	SubjectApplied = "hotboard.applied"
	// SubjectQuery answers questions of the reading API, for edges that serve it to
	// visitors. The body of a request is a question in JSON, that of the reply the
	// body of the HTTP answer, with its status and validators as headers.
	SubjectQuery = "hotboard.query"
	// SubjectOutcomes has what aggregators tell all edges of votes, as [Outcomes] in
	// JSON. What gets lost there costs nobody a count.
	SubjectOutcomes = "hotboard.outcomes"
	// SubjectRules answers any request with the ruleset in force, as JSON.
	SubjectRules = "hotboard.rules"
)

// Bucket is a key-value bucket with secrets that all edges share: the keys of the
// hashes under which visitors, users and the counts of limits leave an edge. Once
// a secret is gone, nobody can tell any more whom a hash stood for.
type Bucket struct {
	Name string
	// TTL is how long a secret is kept: longer than the period it is for and the
	// one before, in which it is made. 0: for ever.
	TTL time.Duration
}

// The buckets, by how long the periods of their secrets last.
var (
	DayBucket     = Bucket{"HOTBOARD_SALTS", 3 * 24 * time.Hour}
	WeekBucket    = Bucket{"HOTBOARD_SECRETS_WEEK", 16 * 24 * time.Hour}
	MonthBucket   = Bucket{"HOTBOARD_SECRETS_MONTH", 64 * 24 * time.Hour}
	LastingBucket = Bucket{"HOTBOARD_SECRETS_LASTING", 0}
)

// Buckets returns all buckets.
func Buckets() []Bucket { return []Bucket{DayBucket, WeekBucket, MonthBucket, LastingBucket} }

const (
	// BucketDescription and BucketBytes are the same for all buckets.
	BucketDescription = "Secrets that all Hotboard edges share."
	BucketBytes       = 1 << 20
)

// Outcomes is what came of votes that were counted or refused.
type Outcomes struct {
	Votes []VoteOutcome `json:"votes,omitempty"`
	Used  []UsedQuota   `json:"used,omitempty"`
}

// VoteOutcome is what came of a hit that asked for it.
type VoteOutcome struct {
	Confirm uint64 `json:"confirm"` // [Hit.Confirm]
	// Reason is a reason of package ruleset: counted, duplicate, over_quota,
	// closed, unknown_item, …
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"` // the limit, of over_quota
	// Score and Rank of the item on the list's board of all time after it; 0 when
	// they are not known.
	Score float64 `json:"score,omitempty"`
	Rank  int64   `json:"rank,omitempty"`
}

// UsedQuota is a key of which no more votes are counted in a window.
type UsedQuota struct {
	List   string `json:"list"`
	Rule   string `json:"rule"`
	Window string `json:"window"`
	Start  int64  `json:"start"` // beginning of the window, in seconds since the Unix epoch; 0 for a campaign
	Key    uint64 `json:"key"`
	Count  int64  `json:"count"` // votes counted
}

// BehindAfter is how long an accepted hit may wait to be counted before that is a
// fault, at the edge that accepted it and at every aggregator.
const BehindAfter = time.Minute

// Waiting asks how far an edge's batches are applied, and reports which of them
// are not, as far as the edge knows.
type Waiting struct {
	Edge string `json:"edge"`
	// Batches are accepted and not known to be applied.
	Batches uint64 `json:"batches,omitempty"`
	// OldestMillis is how long the oldest of them has waited.
	OldestMillis int64 `json:"oldest_ms,omitempty"`
	// Refused is why the log, which the edge can reach, has not stored anything for
	// some seconds, and what to do about it. It is at most MaxRefused bytes long.
	Refused string `json:"refused,omitempty"`
}

// MaxRefused bounds [Waiting.Refused].
const MaxRefused = 512

// Applied says, for each shard, the highest batch sequence of one edge that is
// in the counts. A shard that has none is absent.
type Applied struct {
	Shards map[int]uint64 `json:"shards"`
}
