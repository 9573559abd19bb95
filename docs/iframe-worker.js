// SPDX-License-Identifier: Apache-2.0
// A page that is opened as a file may start no worker, and the theme's search is one. This Worker
// runs its script in a frame of the page instead; pages from a server keep the browser's own.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => this.start(frame.contentWindow, url), { once: true });
      document.body.appendChild(frame);
    }

    start(inside, url) {
      const base = new URL(url, location.href);
      inside.postMessage = (data) => this.tell(this, window, data);
      const load = (address) =>
        new Promise((done, failed) => {
          const script = inside.document.createElement("script");
          script.src = new URL(address, base);
          script.onload = done;
          script.onerror = failed;
          inside.document.body.appendChild(script);
        });
      inside.importScripts = (...all) => Promise.all(all.map(load));
      load(base).then(() => {
        this.inside = inside;
        for (const data of this.waiting) this.tell(inside, inside, data);
      });
    }

    tell(target, of, data) {
      const event = new of.MessageEvent("message", { data });
      target.dispatchEvent(event);
      if (target === this && this.onmessage) this.onmessage(event);
    }

    postMessage(data) {
      if (this.inside) this.tell(this.inside, this.inside, data);
      else this.waiting.push(data);
    }

    terminate() {}
  };
}
