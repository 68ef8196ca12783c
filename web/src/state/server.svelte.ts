// Whether the server answers, and the token it may ask for (kept for this tab only).

const TOKEN_KEY = "metier.token";

function keptToken(): string {
  try {
    return sessionStorage.getItem(TOKEN_KEY) ?? "";
  } catch {
    return "";
  }
}

class Server {
  /** The last request got no answer. */
  isGone = $state(false);
  /** The server refuses requests without a (right) token. */
  needsToken = $state(false);
  /** Grows whenever everything on show should be asked for again. */
  epoch = $state(0);
  token = $state(keptToken());
  lastAnswer = $state(0);

  answered(): void {
    this.lastAnswer = Date.now();
    if (!this.isGone) return;
    this.isGone = false;
    this.epoch += 1;
  }

  failed(): void {
    this.isGone = true;
  }

  /** A token that was not accepted is not kept: without it, a reload may be let in. */
  wantsToken(): void {
    this.needsToken = true;
    try {
      sessionStorage.removeItem(TOKEN_KEY);
    } catch {
      // Without storage there is nothing to remove.
    }
  }

  useToken(token: string): void {
    this.token = token;
    this.needsToken = false;
    this.epoch += 1;
    try {
      sessionStorage.setItem(TOKEN_KEY, token);
    } catch {
      // Without storage the token lives as long as the page.
    }
  }

  /** Asks whether the server is alive; cheap, needs no token. */
  async ask(): Promise<void> {
    const limit = new AbortController();
    const timer = setTimeout(() => limit.abort(), 5000);
    try {
      const response = await fetch("healthz", { signal: limit.signal, cache: "no-store" });
      if (response.status === 502 || response.status === 504) this.failed();
      else this.answered();
    } catch {
      this.failed();
    } finally {
      clearTimeout(timer);
    }
  }
}

export const server = new Server();
