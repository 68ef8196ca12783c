// Where in the page we are. The address bar is the truth; this follows it.

import { format, parse, type Address } from "../address";

class Route {
  here = $state.raw<Address>(parse(location.hash));

  constructor() {
    addEventListener("hashchange", () => {
      this.here = parse(location.hash);
    });
  }

  /** Goes there; with `replace` without a new step in the history (typing, zooming). */
  go(address: Address, replace = false): void {
    const hash = format(address);
    if (hash === location.hash) return;
    if (replace) {
      history.replaceState(history.state, "", hash);
      this.here = parse(hash);
    } else {
      location.hash = hash;
    }
  }
}

export const route = new Route();
