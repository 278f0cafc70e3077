"""Every known way around a read-only allow-list is refused, in many spellings; nothing is touched.

The workspace holds a canary that no command may create and lies beside a secret that none may show.
"""

import subprocess

import pytest

SECRET = "the-secret-outside"

SHELL_GRAMMAR = [
    "cat a.txt; touch canary", "cat a.txt && touch canary", "cat a.txt || touch canary",
    "cat a.txt | tee canary", "cat a.txt |& tee canary", "cat a.txt & touch canary",
    "cat a.txt > canary", "cat a.txt >> canary", "cat a.txt >| canary", "cat < ../secret",
    "cat <<< x", "cat << EOF", "cat <(cat ../secret)", "cat >(touch canary)",
    "cat $(touch canary)", "cat `touch canary`", 'cat "$(touch canary)"', 'cat "`touch canary`"',
    "cat $IFS../secret", "cat${IFS}../secret", "cat $'\\x2e\\x2e/secret'", "cat ${x:-../secret}",
    "cat ${x@P}", "cat $((1+1))", "cat {..,.}/secret", "cat ../secre?", "cat ../*",
    "cat ../se[c]ret", "cat ~root", "cat ~/x", "cat a.txt\ntouch canary",
    "cat a.txt\rtouch canary", "cat a.txt\0", "cat a.txt #x", "! cat a.txt", "{ cat a.txt; }",
    "(cat a.txt)", "[[ -v x ]]", "[ -f a.txt ]", "f() { ls; }", "cat a.txt \\; touch canary",
    "if true; then ls; fi", "cat \\\na.txt", "!!", "!cat", "cat ^a^b",
]  # fmt: skip

NOT_LISTED = [
    "touch canary", "rm a.txt", "cp a.txt canary", "mv a.txt canary", "tee canary", "dd of=canary",
    "ln -s a.txt canary", "mkdir canary", "sh -c ls", "bash -c ls", "python3 -c 1", "perl -e 1",
    "awk 1 a.txt", "sed -n 1p a.txt", "sed -i s/a/b/ a.txt", "xargs ls", "env ls", "env -S ls",
    "timeout 1 ls", "nice ls", "nohup ls", "busybox ls", "man ls", "less a.txt", "more a.txt",
    "vi a.txt", "tar cf canary a.txt", "zip canary a.txt", "split a.txt canary",
    "curl file:///etc/passwd", "wget x", "nc -l 1", "ssh x", "sudo ls", "exec ls", "eval ls",
    "command ls", "builtin echo", "source a.txt", ". a.txt", "export A=1", "set -x", "alias ls=rm",
    "trap ls EXIT", "printf x", "echo x", "yes", "watch ls", "strace ls", "gdb", "make",
    "jq . a.txt", "file a.txt", "od a.txt", "xxd a.txt", "strings a.txt", "base64 a.txt",
    "tac a.txt", "nl a.txt", "column a.txt", "pr a.txt", "/bin/cat a.txt", "./cat a.txt",
    "../ws/cat a.txt", "'cat' a.txt", 'c"at" a.txt', "CAT a.txt", "сat a.txt", "cаt a.txt",
    "gіt log", "\u2066cat a.txt", "cat\u00a0a.txt", "ca't' a.txt", "busybox cat a.txt",
    "PATH=. cat a.txt", "GIT_PAGER=x git log", "LD_PRELOAD=x cat a.txt", "BASH_ENV=x cat a.txt",
    "PAGER=x git log", "A=1 B=2 ls", "=ls", "%1",
]  # fmt: skip

READ_OUTSIDE = [
    "cat ../secret", "cat ./../secret", "cat a/../../secret", "cat 'a/../../secret'",
    'cat "../secret"', "cat '..'/secret", "cat -- ../secret", "cat -n ../secret",
    "cat /etc/passwd", "cat //etc/passwd", "cat /proc/self/environ", "cat /dev/tcp/127.0.0.1/7233",
    "cat /dev/zero", "cat /dev/stdin", "cat -", "cat", "head ../secret", "tail -n 5 ../secret",
    "tail /dev/zero", "wc -l ../secret", "sort ../secret", "uniq ../secret", "cut -c1-9 ../secret",
    "diff a.txt ../secret", "diff ../secret a.txt", "stat ../secret", "ls ..", "ls /",
    "ls -la ../", "ls -R /etc", "find ..", "find / -name passwd", "find ../ -type f",
    "find . ../secret", "grep x ../secret", "grep -r x ..", "grep -r x /etc",
    "grep -e x ../secret", "cat out-link", "head out-link", "grep x out-link",
    "cat out-folder/secret", "grep -r x out-folder/secret",
    "find out-folder/secret", "wc out-link", "sort out-link", "diff a.txt out-link", "cat pipe",
    "head pipe", "grep x pipe", "tail -f a.txt", "tail -F a.txt", "cat .git/config", "cat .env",
    "grep x .env", "head .env", "cat .ENV", "ls .git", "find .git", "cat .git/../.git/config",
    "sort .env", "diff a.txt .env", "cut -c1- .env",
]  # fmt: skip

DANGEROUS_FLAGS = [
    "sort -o canary a.txt", "sort -ocanary a.txt", "sort --output=canary a.txt",
    "sort --output canary a.txt", "sort --outp=canary a.txt", "sort -ro canary a.txt",
    "sort --compress-program=./evil a.txt", "sort --compress-prog ./evil a.txt", "sort -S 1 a.txt",
    "sort -T . a.txt", "sort --temporary-directory=. a.txt", "sort --files0-from=list",
    "sort --files0-fr=list", "sort --random-source=../secret a.txt", "uniq a.txt canary",
    "uniq -c a.txt canary", "uniq -- a.txt canary", "wc --files0-from=list", "wc --files0-f list",
    "cat --show-all a.txt", "head -z a.txt", "head -n -1x a.txt", "head -n", "head -n x a.txt",
    "tail --follow a.txt", "tail --pid=1 a.txt", "tail -nf a.txt", "tail --retry a.txt",
    "grep -f ../secret a.txt", "grep --file=../secret a.txt", "grep --fil ../secret a.txt",
    "grep -rf ../secret .", "grep --include-from=x -r a", "grep -z x a.txt", "grep -D read x pipe",
    "grep --devices=read x pipe", "grep --binary-files=text x a.txt", "grep -n",
    "find . -exec touch canary", "find . -exec touch canary {} +", "find . -execdir touch canary",
    "find . -ok touch canary", "find . -okdir touch canary", "find . -delete",
    "find . -fprint canary", "find . -fprint0 canary", "find . -fprintf canary x",
    "find . -fls canary", "find . -ls", "find -files0-from list", "find . -newer ../secret",
    "find . -samefile ../secret", "find -L . -name x", "find -H . -name x", "find -D exec .",
    "find -O3 .", "find . -name", "find . -name ../x", "find . -maxdepth x", "find . -maxdepth -1",
    "find . -type l,f", "find . -size x", "find . -regex x", "find . -follow", "find . -quit",
    "find . -printf x", "find . -EXEC touch canary", "find . -exe touch canary",
    "find . '-exec' touch canary", 'find . "-delete"', "find . -not -delete", "find . -o -delete",
    "find . '(' -delete ')'", "cut --output-delimiter=x -f1 a.txt", "cut a.txt",
    "cut -f1 -c1 a.txt", "cut -d ab -f1 a.txt", "diff -r . .", "diff --to-file=canary a.txt",
    "diff --from-file=../secret a.txt", "diff --exclude-from=../secret a.txt b.txt", "diff a.txt",
    "diff a.txt b.txt a.txt", "diff -D x a.txt b.txt", "diff --ifdef=x a.txt b.txt",
    "diff -l a.txt b.txt", "diff --paginate a.txt b.txt", "ls --hyperlink", "ls -L out-folder",
    "ls --dereference out-folder", "ls -Z", "stat -f .", "stat --printf=x a.txt",
    "stat -L out-link", "stat -c %n a.txt", "ls --color=always",
]  # fmt: skip

GIT = [
    "git", "git --version", "git help", "git -c core.pager=./evil log", "git -C .. log",
    "git -C ../other log", "git --git-dir=../other/.git log", "git --git-dir ../other/.git log",
    "git --work-tree=.. status", "git --exec-path=. log", "git --exec-path", "git -p log",
    "git --paginate log", "git --namespace=x log", "git --config-env=core.pager=X log",
    "git 'log'", "git log --ext-diff", "git log --textconv", "git diff --ext-diff",
    "git diff --textconv", "git show --ext-diff", "git show --textconv HEAD",
    "git diff --output=canary", "git diff --output canary", "git diff --outp=canary",
    "git diff --no-index a.txt ../secret", "git diff --no-ind a.txt ../secret",
    "git log --output=canary", "git show --output=canary", "git log -o canary", "git log -Ocanary",
    "git diff -O../secret", "git diff --orderfile=x", "git log --format=%G?",
    "git log --format='%h %GS'", "git log --pretty=format:%GK", "git log --show-signature",
    "git show --show-signature", "git log --show-sig", "git log --format=%(trailers)",
    "git log --format=evil", "git log --pretty=evil", "git log --pretty=tformat:%G?",
    "git log --format=%x00", "git log --mailmap", "git log --stdin",
    "git log --exclude-from=../secret", "git log --remerge-diff", "git log -L1,2:a.txt",
    "git log --glob=x", "git log --branches=x", "git log --since='$(id)'", "git log -n -1x",
    "git log --date=format:%s", "git blame --contents ../secret a.txt",
    "git blame --conten ../secret a.txt", "git blame -S ../secret a.txt",
    "git blame --ignore-revs-file=../secret a.txt", "git blame ../secret", "git blame /etc/passwd",
    "git blame -L :evil a.txt", "git blame -L '/x/,+1' a.txt", "git blame --textconv a.txt",
    "git blame", "git blame HEAD HEAD a.txt", "git blame .env", "git branch new",
    "git branch -d main", "git branch -D main", "git branch -m a b", "git branch -f x",
    "git branch --edit-description", "git branch --list new other", "git branch -u x",
    "git branch --set-upstream-to=x", "git branch --unset-upstream",
    "git branch --format=%(refname)", "git ls-files --exclude-from=../secret",
    "git ls-files -X ../secret", "git ls-files ../", "git ls-files --exclude-per-directory=x",
    "git ls-files --with-tree=HEAD", "git ls-files -z", "git ls-files --recurse-submodules",
    "git status --porcelain=v9", "git status ../", "git status --column",
    "git status --ignore-submodules=none", "git status -vv", "git status -u", "git show HEAD:.env",
    "git show HEAD:../secret", "git show HEAD:.git/config", "git show HEAD:/etc/passwd",
    "git show ':(top)a.txt'", "git show :0:a.txt", "git show --upload-pa=x",
    "git show HEAD a.txt:b", "git diff HEAD:.env", "git diff -- ../secret",
    "git diff -- /etc/passwd", "git log -- ../secret",
    "git log -- .env", "git diff .env", "git log .env",
    "git diff HEAD --not-a-flag", "git log HEAD..--output=canary", "git log ..",
    "git log -- -x/../..", "git commit -am x", "git add .", "git checkout HEAD",
    "git reset --hard", "git clean -fd", "git stash", "git push", "git pull", "git fetch",
    "git clone . canary", "git init canary", "git config --list",
    "git config alias.x '!touch canary'", "git worktree add canary", "git tag x", "git gc",
    "git archive -o canary HEAD", "git bundle create canary HEAD", "git format-patch -1",
    "git difftool", "git mergetool", "git grep -O./evil x", "git grep x", "git rebase --exec=ls",
    "git bisect run ls", "git submodule foreach ls", "git filter-branch",
    "git hash-object -w a.txt", "git cat-file --textconv HEAD:a.txt",
    "git archive --remote=. HEAD", "git ls-remote ext::sh", "git apply x", "git am x",
    "git notes add", "git reflog delete", "git update-index --refresh", "git credential fill",
    "git daemon", "git instaweb", "git send-email x", "git shell", "git evil", "git log\u00a0-p",
    "git lоg", "git LOG", "git  --no-pager log", "git -- log",
]  # fmt: skip

CASES = [*SHELL_GRAMMAR, *NOT_LISTED, *READ_OUTSIDE, *DANGEROUS_FLAGS, *GIT]


def as_given(command):
    return command


def wide(command):
    return f"  {command.replace(' ', '   ')}  "


def quoted_last(command):
    """The last word in quotes, unless it is quoted or the line depends on it."""
    head, blank, last = command.rpartition(" ")
    plain = blank and last and not set(last) & set("'\"\\\n\r\0$`")
    return f"{head} '{last}'" if plain else command


def quoted_double(command):
    head, blank, last = command.rpartition(" ")
    plain = blank and last and not set(last) & set("'\"\\\n\r\0$`!")
    return f'{head} "{last}"' if plain else command


def codes(command):
    """How a case may end. A git line must fall before git is asked; paths may meet the file."""
    refused = {"refused", "path", "protected", "pattern"}
    return (
        refused if command in GIT else refused | {"link", "not_a_folder", "not_a_file", "not_found"}
    )


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    (tmp_path / "secret").write_text(SECRET)
    (folder / "a.txt").write_text("x one\n")
    (folder / "b.txt").write_text("x two\n")
    (folder / "list").write_text("../secret\0")
    (folder / ".env").write_text(SECRET)
    (folder / "a").mkdir()
    (folder / "evil").write_text("#!/bin/sh\ntouch canary\n")
    (folder / "evil").chmod(0o755)
    subprocess.run(["mkfifo", str(folder / "pipe")], check=True)
    (folder / "out-link").symlink_to("../secret")
    (folder / "out-folder").symlink_to("..")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text(SECRET)
    return folder


@pytest.mark.parametrize("mutate", [as_given, wide, quoted_last, quoted_double])
@pytest.mark.parametrize("block", range(0, len(CASES), 40))
async def test_refused(root, call, block, mutate):
    """In blocks, since each case needs only a moment, and a fresh folder a while."""
    before = sorted(path.name for path in root.iterdir())
    escaped = []
    for command in CASES[block : block + 40]:
        output = await call("shell.readonly", command=mutate(command))
        if output.outcome == "ok" or SECRET in output.text or output.code not in codes(command):
            escaped.append((command, output.code))
    assert escaped == []
    assert sorted(path.name for path in root.iterdir()) == before
