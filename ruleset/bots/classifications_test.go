package bots

import (
	"net/netip"
	"testing"
)

// classifications are User-Agents as a person would classify them.
var classifications = []struct {
	userAgent, class, reason, device string
}{
	// People at a desk.
	{chrome, "", "", "desktop"},
	{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "", "", "desktop"},
	{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15", "", "", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0", "", "", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 YaBrowser/25.8.0.0 Yowser/2.5 Safari/537.36", "", "", "desktop"},
	{"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36", "", "", "desktop"},
	{"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; SLCC2; .NET CLR 2.0.50727; Media Center PC 6.0; Tablet PC 2.0)", "", "", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; WOW64; Trident/7.0; rv:11.0) like Gecko", "", "", "desktop"},
	{"Mozilla/5.0 (compatible; Konqueror/4.14; Linux) KHTML/4.14.16 (like Gecko)", "", "", "desktop"},
	{"Mozilla/4.8 [en] (Windows NT 5.1; U)", "", "", "desktop"},
	{"Opera/9.80 (Windows NT 6.1; U; en) Presto/2.10.229 Version/11.62", "", "", "desktop"},
	{"Lynx/2.8.9rel.1 libwww-FM/2.14 SSL-MM/1.4.1 GNUTLS/3.7.1", "", "", "other"},
	{"w3m/0.5.3+git20230121", "", "", "other"},
	{"Links (2.29; Linux 6.8.0 x86_64; GNU C 13.2; text)", "", "", "desktop"},
	// Desktop programs that show pages to people.
	{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Slack/4.41.97 Chrome/130.0.0.0 Electron/33.0.0 Safari/537.36 Sonic Slack_SSB/4.41.97", "", "", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Mattermost/5.10.2 Chrome/130.0.0.0 Electron/33.0.0 Safari/537.36", "", "", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Code/1.104.0 Chrome/138.0.0.0 Electron/37.0.0 Safari/537.36", "", "", "desktop"},
	{"Mozilla/5.0 (Windows; U; Windows NT 10.0; en-US; Valve Steam GameOverlay/1608507519; ) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/85.0.4183.121 Safari/537.36", "", "", "desktop"},
	// People on phones, in browsers and in apps.
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36", "", "", "mobile"},
	{"Mozilla/5.0 (Android 14; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; Android 6.0; CUBOT DINOSAUR Build/MRA58K; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/44.0.2403.119 Mobile Safari/537.36", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; Android 15; CPH2557 Build/AP3A.240617.008; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36 Instagram 406.0.0.58.159 Android (35/15; 480dpi; 1080x2400; OPPO; CPH2557; OP573DL1; mt6833; en_MY; 822918295)", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/420.0.0.32.71;FBDV/iPhone13,3;FBCR/Telekom.de;FBID/phone;FBLC/de_DE]", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 MicroMessenger/8.0.42(0x18002a2f) NetType/WIFI Language/zh_CN", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Safari Line/14.9.0", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/323.0.0 Mobile/15E148 Safari/604.1", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; Android 14; SM-S911B; wv) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/141.0.0.0 Mobile Safari/537.36 Amazon.com/28.3.0.100 (Android/14/SM-S911B)", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1 (Ecosia ios@10.1.0.1796)", "", "", "mobile"},
	{"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 BuzzFeed/2024.7", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; Android 13; SAMSUNG SM-A536B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; arm_64; Android 11; Redmi Note 9S) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/104.0.5112.124 YaApp_Android/22.95.1 YaSearchBrowser/22.95.1 BroPP/1.0 SA/3 Mobile Safari/537.36", "", "", "mobile"},
	{"Mozilla/5.0 (Linux; U; Android 12; zh-CN; V2166A Build/SP1A.210812.003) AppleWebKit/537.36 (KHTML, like Gecko) Version/4.0 Chrome/100.0.4896.58 UCBrowser/15.9.2 Mobile Safari/537.36", "", "", "mobile"},
	{"Opera/9.80 (Android; Opera Mini/36.2/191.256; U; en) Presto/2.12.423 Version/12.16", "", "", "mobile"},
	{"UCWEB/2.0 (Java; U; MIDP-2.0; en-US; nokiac3-00) U2/1.0.0 UCBrowser/9.5.0.449 U2/1.0.0 Mobile", "", "", "mobile"},
	{"Nokia6230i/2.0 (03.80) Profile/MIDP-2.0 Configuration/CLDC-1.1", "", "", "mobile"},
	{"SonyEricssonT100/R101", "", "", "mobile"},
	{"Mozilla/5.0 (Mobile; Nokia 8110 4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5", "", "", "mobile"},
	{"Dalvik/2.1.0 (Linux; U; Android 9; SM-G965U Build/PPR1.180610.011)", "", "", "mobile"},
	// Tablets, televisions, consoles.
	{"Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1", "", "", "tablet"},
	{"Mozilla/5.0 (Linux; Android 13; SM-X200) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36", "", "", "tablet"},
	{"Mozilla/5.0 (Android 13; Tablet; rv:140.0) Gecko/140.0 Firefox/140.0", "", "", "tablet"},
	{"Mozilla/5.0 (SMART-TV; LINUX; Tizen 7.0) AppleWebKit/537.36 (KHTML, like Gecko) 94.0.4606.31/7.0 TV Safari/537.36", "", "", "tv"},
	{"Mozilla/5.0 (Web0S; Linux/SmartTV) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/94.0.4606.128 Safari/537.36 WebAppManager", "", "", "tv"},
	{"Mozilla/5.0 (Linux; Android 9; AFTMM Build/PS7633) AppleWebKit/537.36 (KHTML, like Gecko) Silk/108.9.6 like Chrome/108.0.5359.220 Safari/537.36", "", "", "tv"},
	{"Mozilla/5.0 (PlayStation 4/SmartTV) AppleWebKit/605.1.15 (KHTML, like Gecko)", "", "", "tv"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64; Xbox; Xbox One) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/70.0.3538.102 Safari/537.36 Edge/18.18363", "", "", "tv"},
	{"Mozilla/5.0 (Nintendo 3DS; U; ; en) Version/1.7412.EU", "", "", "other"},

	// Programs that identify themselves.
	{googlebot, "search_engine", "token Googlebot", "other"},
	{"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "search_engine", "token Googlebot", "mobile"},
	{"Mozilla/5.0 (X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36", "search_engine", "token Storebot-Google", "desktop"},
	{"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "search_engine", "token bingbot", "other"},
	{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", "ai_crawler", "token GPTBot", "other"},
	{"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", "ai_crawler", "token ClaudeBot", "other"},
	{"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", "ai_crawler", "token Bytespider", "mobile"},
	{"meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)", "ai_crawler", "token Meta-ExternalAgent", "other"},
	{"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", "seo_tool", "token AhrefsBot", "other"},
	{"Feedbin feed-id:1373711 - 3 subscribers", "feed_reader", "word feed", "other"},
	{"Mozilla/5.0 (compatible; Inoreader/2.0; 12 subscribers)", "feed_reader", "structure: compatible", "other"},
	{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "link_preview", "token facebookexternalhit", "other"},
	{"WhatsApp/2.23.20.0 A", "link_preview", "token WhatsApp", "other"},
	{"Mozilla/5.0 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "monitor", "token UptimeRobot", "other"},
	{"Mozilla/5.0 (X11; Linux x86_64; Rigor) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/80.0.3987.106 Safari/537.36", "monitor", "token Rigor", "desktop"},
	{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/141.0.0.0 Safari/537.36", "headless_browser", "token HeadlessChrome", "desktop"},
	{"Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)", "scanner", "token Nmap", "other"},
	{"ia_archiver (+http://www.alexa.com/site/help/webmasters; crawler@alexa.com)", "archiver", "token ia_archiver", "other"},
	{"curl/8.5.0", "http_library", "token curl", "other"},
	{"Wget/1.21.4", "http_library", "token Wget", "other"},
	{"python-requests/2.32.3", "http_library", "token Python", "other"},
	{"Go-http-client/2.0", "http_library", "token Go-http-client", "other"},
	{"okhttp/4.12.0", "http_library", "token okhttp", "other"},
	{"axios/1.7.2", "http_library", "token axios", "other"},
	{"Java/17.0.2", "http_library", "token Java", "other"},
	{"node", "http_library", "token node", "other"},
	{"Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.4291", "http_library", "token WindowsPowerShell", "desktop"},

	// Programs that no family names.
	{"Mozilla/5.0 (compatible; Foobot/1.0)", "crawler", "word bot", "other"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 ExampleCrawl/2.0", "crawler", "word crawl", "desktop"},
	{"Mozilla/5.0 (Windows NT 6.1; WOW64; rv:38.0) Gecko/20100101 Firefox/38.0 (IndeedBot 1.1)", "search_engine", "token IndeedBot", "desktop"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 (+https://example.org/why)", "other", "structure: url", "desktop"},
	{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36 Someone/1.0 (someone.example.org)", "other", "structure: domain", "desktop"},
	{"Someone (me@example.org)", "other", "structure: mail address", "other"},
	{"Mozilla/5.0 (compatible; Someone/1.0)", "other", "structure: compatible", "other"},
	{"Mozilla/5.0 (Windows NT 10.0; Win64; x64)", "other", "structure: no engine", "desktop"},
	{"Mozilla/5.0", "other", "structure: no platform", "other"},
	{"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko; Someone) Chrome/120.0.0.0 Safari/537.36", "other", "structure: engine", "desktop"},
	{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7; Someone-12) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "other", "structure: platform", "desktop"},
	{"Someone/1.0 Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36", "other", "structure: prefix", "desktop"},
	{"Someone's tool 1.0", "other", "structure: no browser", "other"},
	{"abc/1.0", "other", "structure: short", "other"},
	{"Mozilla/5.0 (Windows NT 10.0) Gecko/1 ${jndi:ldap:x}", "scanner", "structure: code", "desktop"},
	{"", "empty", "no_user_agent", "other"},
	{"  ", "empty", "no_user_agent", "other"},
	{"-", "empty", "no_user_agent", "other"},
}

func TestClassify_BuiltIn(t *testing.T) {
	t.Parallel()
	c := New(nil, 1000)
	for range 2 { // the second time from the cache
		for _, tt := range classifications {
			want := Classification{Bot: tt.class != "", Class: tt.class, Reason: tt.reason, Device: tt.device}
			if got := c.Classify(tt.userAgent, netip.Addr{}); got != want {
				t.Errorf("%s\n got %+v\nwant %+v", tt.userAgent, got, want)
			}
		}
	}
}
