package bots

import "github.com/mileusna/useragent"

// builtIn holds the rules that need no file.
type builtIn struct {
	names *names
	words []word
}

func newBuiltIn() *builtIn { return &builtIn{names: newNames(), words: words()} }

// judge returns the class of a bot and the reason, or "" for a person.
func (b *builtIn) judge(t *text) (class, reason string) {
	if t.raw == "" || t.raw == "-" {
		return "empty", "no_user_agent"
	}
	own, shared := b.names.find(t.raw)
	if own != nil {
		return own.class, own.reason
	}
	if class, reason = b.judgeUnnamed(t); shared != nil && (class == "other" || class == "crawler") {
		class = shared.class
	}
	return class, reason
}

func (b *builtIn) judgeUnnamed(t *text) (class, reason string) {
	for i := range b.words {
		if w := &b.words[i]; !(w.tools && t.app) && w.find(t.said) {
			return w.class, "word " + w.text
		}
	}
	if class, reason = t.structure(); class != "" {
		return class, reason
	}
	if useragent.Parse(t.raw).Bot && !t.hasAny(ownAddresses...) {
		return "crawler", "library"
	}
	return "", ""
}
