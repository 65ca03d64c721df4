package hit

import (
	"strings"
	"testing"
)

func TestRulesID(t *testing.T) {
	t.Parallel()
	id := RulesIDOf([]byte("{}"))
	if id.IsZero() || id == RulesIDOf([]byte("{ }")) || id != RulesIDOf([]byte("{}")) {
		t.Errorf("%s does not name its document", id)
	}
	if got, err := ParseRulesID(id.String()); err != nil || got != id {
		t.Errorf("%s, %v; want %s", got, err, id)
	}
	if !strings.HasPrefix(id.String(), id.Short()) || len(id.Short()) != 8 {
		t.Errorf("%s is not the beginning of %s", id.Short(), id)
	}
	for _, s := range []string{"", "00", id.String() + "0", strings.Repeat("x", 32)} {
		if got, err := ParseRulesID(s); err == nil || !got.IsZero() {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	var back RulesID
	for _, want := range []RulesID{id, {}} {
		text, err := want.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := back.UnmarshalText(text); err != nil || back != want {
			t.Errorf("%q: %s, %v", text, back, err)
		}
	}
	if (&back).UnmarshalText([]byte("x")) == nil {
		t.Error("x was accepted")
	}
}
