// The time of day, for "3 min ago". Ticks only while the page is in view.

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 5000);
  }
}

export const clock = new Clock();
