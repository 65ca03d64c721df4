package faults

import "slices"

// Kind is a sort of fault and the label of its metrics. docs/operations.md has a
// row for each.
type Kind string

// Conditions of an aggregator.
const (
	StoreAway    Kind = "store_away"    // the store cannot be read or written
	StoreEvicts  Kind = "store_evicts"  // the store may drop keys, or has dropped some
	LogAway      Kind = "log_away"      // the log cannot be read
	LogShards    Kind = "log_shards"    // the log and the store have different numbers of shards
	LogFull      Kind = "log_full"      // the log is full of uncounted hits and refuses more
	LogRefuses   Kind = "log_refuses"   // the broker is reachable, but the log stores nothing
	RulesMissing Kind = "rules_missing" // the broker lacks the rules of accepted hits
	Gap          Kind = "gap"           // batches are missing before others that arrived
	NewerEdge    Kind = "newer_edge"    // an edge writes batches that this build cannot read
	Behind       Kind = "behind"        // accepted hits are not counted in time
	Incomplete   Kind = "incomplete"    // the counts lack hits that are gone for good
)

// Conditions of an aggregator or an edge.
const (
	RulesDiffer  Kind = "rules_differ"  // a process has other rules than the current revision
	RulesUnknown Kind = "rules_unknown" // the current rules cannot be read
)

// Events of an aggregator.
const (
	Poisoned    Kind = "poisoned_message" // a message could not be read and was set aside
	BatchesLost Kind = "batches_lost"     // neither the log nor an edge has these batches any more
	LogReplaced Kind = "log_replaced"     // the stream is another one than before, or lost its tail
	StoreBehind Kind = "store_behind"     // the store went back to an older state
)

// Conditions of the embedded backend.
const (
	BackendAway  Kind = "backend_away"  // the embedded log or store cannot be opened
	StoreDamaged Kind = "store_damaged" // the database file was set aside; the log is counted again
	LogDamaged   Kind = "log_damaged"   // the files of the log were set aside
)

// Aggregator lists the kinds of an aggregator, the embedded one included.
var Aggregator = []Kind{
	StoreAway, StoreEvicts, LogAway, LogShards, LogFull, LogRefuses, RulesMissing, Gap, NewerEdge, Behind, Incomplete,
	RulesDiffer, RulesUnknown,
	Poisoned, BatchesLost, LogReplaced, StoreBehind,
	BackendAway, StoreDamaged, LogDamaged,
}

// Conditions of an edge, beside LogAway, LogShards, LogRefuses, Behind, RulesDiffer
// and RulesUnknown.
const (
	SpoolFailing   Kind = "spool_failing"    // the spool cannot be opened or written
	SpoolDamaged   Kind = "spool_damaged"    // a spool was set aside; its readable hits are sent
	Doubtful       Kind = "doubtful_batches" // a file holds batches that may or may not be counted
	SecretsFailing Kind = "secrets_failing"  // secrets cannot be read or written
	BotsFile       Kind = "bots_file"        // the file of bots has a mistake
	ListUnknown    Kind = "list_unknown"     // a directive names a list that the followed rules lack
)

// Edge lists the kinds of an edge.
var Edge = []Kind{
	SpoolFailing, SpoolDamaged, Doubtful, LogAway, LogShards, LogRefuses, Behind, SecretsFailing, BotsFile, ListUnknown, RulesDiffer, RulesUnknown,
}

// WithoutConsequences leaves out of the faults of a whole process those that follow
// from another: while the embedded backend is away, so are its log, its store and
// the rules in its broker, and their own remedies would mislead.
func WithoutConsequences(found []Fault) []Fault {
	if !slices.ContainsFunc(found, func(f Fault) bool { return f.Kind == BackendAway }) {
		return found
	}
	return slices.DeleteFunc(slices.Clone(found), func(f Fault) bool {
		return f.Kind == StoreAway || f.Kind == LogAway || f.Kind == LogRefuses || f.Kind == RulesUnknown
	})
}
