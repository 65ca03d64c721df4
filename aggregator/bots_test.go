package main

import (
	"strings"
	"testing"
)

func TestBots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, dir, "bots.json", `[{"pattern": "^Ours"}]`)
	bad := write(t, dir, "bad.json", `[{"pattern": "("}]`)
	rules := write(t, dir, "rules.yaml", articles+"\nbots: {file: "+file+", allow: {user_agents: [OurMonitor]}, deny: {user_agents: [Evil]}}\n")
	const (
		firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
		in      = firefox + "\r\ncurl/8.5.0\n\nOurs/1.0 (Linux)\nOurMonitor-bot/1.0\nEvil " + firefox
	)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, `person	-	-	desktop	FIREFOX
bot	http_library	token curl	other	curl/8.5.0
bot	empty	no_user_agent	other	-
bot	other	structure: no browser	desktop	Ours/1.0 (Linux)
bot	crawler	word bot	other	OurMonitor-bot/1.0
bot	other	structure: prefix	desktop	Evil FIREFOX
`},
		{[]string{"-file", file}, `person	-	-	desktop	FIREFOX
bot	http_library	token curl	other	curl/8.5.0
bot	empty	no_user_agent	other	-
bot	other	pattern ^Ours	desktop	Ours/1.0 (Linux)
bot	crawler	word bot	other	OurMonitor-bot/1.0
bot	other	structure: prefix	desktop	Evil FIREFOX
`},
		{[]string{"-rules", rules}, `person	-	-	desktop	FIREFOX
bot	http_library	token curl	other	curl/8.5.0
bot	empty	no_user_agent	other	-
bot	other	pattern ^Ours	desktop	Ours/1.0 (Linux)
person	-	allow user_agent	other	OurMonitor-bot/1.0
bot	denied	deny user_agent	desktop	Evil FIREFOX
`},
	} {
		status, out, errs := command(t, in, append([]string{"bots"}, tt.args...)...)
		if want := strings.ReplaceAll(tt.want, "FIREFOX", firefox); status != 0 || out != want {
			t.Errorf("bots %v: %d %s\n got %s\nwant %s", tt.args, status, errs, out, want)
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-help"}, 0, "-rules file"},
		{[]string{"more"}, 2, "unexpected argument"},
		{[]string{"-file", bad}, 1, "bad.json:1:2: [0].pattern"},
		{[]string{"-file", dir + "/none.json"}, 1, "none.json"},
		{[]string{"-rules", dir + "/none.yaml"}, 1, "none.yaml"},
	} {
		if status, out, errs := command(t, in, append([]string{"bots"}, tt.args...)...); status != tt.status || !strings.Contains(errs, tt.want) {
			t.Errorf("bots %v: %d\n%s%s", tt.args, status, out, errs)
		}
	}
}

func TestImportHeedsBotRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := write(t, dir, "bots.json", `[{"pattern": "Firefox/140"}]`)
	log := write(t, dir, "access.log", accessLog(10))
	for name, tt := range map[string]struct{ bots, want string }{
		"by name":  {"{file: " + file + "}", "a bot's"},
		"by range": {"{deny: {cidrs: [10.0.0.0/16]}}", "a bot's"},
		"missing":  {"{file: " + dir + "/none.json}", "-bots"},
	} {
		rules := write(t, dir, strings.ReplaceAll(name, " ", "")+".yaml", articles+"\nbots: "+tt.bots+"\n")
		status, out, errs := command(t, "", "import", "-data", t.TempDir(), "-rules", rules, log)
		if (name == "missing") != (status == 1) || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: %d\n%s%s", name, status, out, errs)
		}
	}
	rules := write(t, dir, "rules.yaml", articles)
	if status, out, errs := command(t, "", "import", "-data", t.TempDir(), "-rules", rules, "-bots", file, log); status != 0 || !strings.Contains(out, "a bot's") {
		t.Errorf("-bots: %d\n%s%s", status, out, errs)
	}
}
